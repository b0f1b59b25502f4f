-- +goose Up

-- Where a thread stands in a list is one value instead of three: the facet (16 bytes), whether it is deleted (1), the time in microseconds
-- (8, the highest first). A row of the index is then found by one comparison, and a list is a range.
CREATE TABLE thread_facets_next (
    org_id    TEXT  NOT NULL,
    place     BYTEA NOT NULL,
    thread_id TEXT COLLATE "C" NOT NULL,
    mates     BYTEA NULL
);
INSERT INTO thread_facets_next (org_id, place, thread_id, mates)
    SELECT org_id, facet || CASE WHEN deleted THEN '\x01'::bytea ELSE '\x00'::bytea END || int8send(created_at), thread_id, mates
    FROM thread_facets;
DROP TABLE thread_facets;
ALTER TABLE thread_facets_next RENAME TO thread_facets;
ALTER TABLE thread_facets ADD PRIMARY KEY (org_id, place, thread_id) INCLUDE (mates);

CREATE TABLE thread_changes_next (
    org_id    TEXT  NOT NULL,
    place     BYTEA NOT NULL,
    thread_id TEXT COLLATE "C" NOT NULL,
    mates     BYTEA NULL
);
INSERT INTO thread_changes_next (org_id, place, thread_id, mates)
    SELECT org_id, facet || CASE WHEN deleted THEN '\x01'::bytea ELSE '\x00'::bytea END || int8send(updated_at), thread_id, mates
    FROM thread_changes;
DROP TABLE thread_changes;
ALTER TABLE thread_changes_next RENAME TO thread_changes;
ALTER TABLE thread_changes ADD PRIMARY KEY (org_id, place, thread_id) INCLUDE (mates);
