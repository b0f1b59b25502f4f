-- +goose Up

-- Where a thread stands in a list is one value instead of three: the facet (16 bytes), whether it is deleted (1), the time in microseconds
-- (8, the highest first). A row of the index is then found by one comparison, and a list is a range.
CREATE TABLE thread_facets_next (
    org_id    TEXT NOT NULL,
    place     BLOB NOT NULL,
    thread_id TEXT NOT NULL,
    mates     BLOB NULL,
    PRIMARY KEY (org_id, place, thread_id)
) STRICT, WITHOUT ROWID;
INSERT INTO thread_facets_next (org_id, place, thread_id, mates)
    SELECT org_id, CAST(facet || CASE deleted WHEN 0 THEN x'00' ELSE x'01' END || unhex(printf('%016x', created_at)) AS BLOB),
        thread_id, mates FROM thread_facets ORDER BY org_id, facet, deleted, created_at, thread_id;
DROP TABLE thread_facets;
ALTER TABLE thread_facets_next RENAME TO thread_facets;

CREATE TABLE thread_changes_next (
    org_id    TEXT NOT NULL,
    place     BLOB NOT NULL,
    thread_id TEXT NOT NULL,
    mates     BLOB NULL,
    PRIMARY KEY (org_id, place, thread_id)
) STRICT, WITHOUT ROWID;
INSERT INTO thread_changes_next (org_id, place, thread_id, mates)
    SELECT org_id, CAST(facet || CASE deleted WHEN 0 THEN x'00' ELSE x'01' END || unhex(printf('%016x', updated_at)) AS BLOB),
        thread_id, mates FROM thread_changes ORDER BY org_id, facet, deleted, updated_at, thread_id;
DROP TABLE thread_changes;
ALTER TABLE thread_changes_next RENAME TO thread_changes;
