-- +goose Up

-- How many threads a facet has: the sum over the slots, which keep concurrent writers apart. A facet without threads has no rows.
CREATE TABLE thread_sizes (
    org_id  TEXT    NOT NULL,
    facet   BYTEA   NOT NULL,
    deleted BOOLEAN NOT NULL,
    slot    BIGINT  NOT NULL,
    n       BIGINT  NOT NULL,
    PRIMARY KEY (org_id, facet, deleted, slot)
);
INSERT INTO thread_sizes (org_id, facet, deleted, slot, n)
    SELECT org_id, facet, deleted, 0, count(*) FROM thread_facets GROUP BY org_id, facet, deleted;
