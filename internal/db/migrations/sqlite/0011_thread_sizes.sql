-- +goose Up

-- How many threads a facet has: the sum over the slots, which keep concurrent writers apart. A facet without threads has no rows.
CREATE TABLE thread_sizes (
    org_id  TEXT    NOT NULL,
    facet   BLOB    NOT NULL,
    deleted INTEGER NOT NULL,
    slot    INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    PRIMARY KEY (org_id, facet, deleted, slot)
) STRICT, WITHOUT ROWID;
INSERT INTO thread_sizes (org_id, facet, deleted, slot, n)
    SELECT org_id, facet, deleted, 0, count(*) FROM thread_facets GROUP BY org_id, facet, deleted;
