-- +goose Up

-- The other keys of a thread, 8 bytes of the hash of each, so that a list by several keys need not look up the threads of one among those
-- of the others. NULL is not known: too many, or from before. The index has all that such a list asks for.
ALTER TABLE thread_facets ADD COLUMN mates BYTEA NULL;
ALTER TABLE thread_changes ADD COLUMN mates BYTEA NULL;
ALTER TABLE thread_facets DROP CONSTRAINT thread_facets_pkey;
ALTER TABLE thread_facets ADD PRIMARY KEY (org_id, facet, deleted, created_at, thread_id) INCLUDE (mates);
ALTER TABLE thread_changes DROP CONSTRAINT thread_changes_pkey;
ALTER TABLE thread_changes ADD PRIMARY KEY (org_id, facet, deleted, updated_at, thread_id) INCLUDE (created_at, mates);

-- Only what is deleted is looked for by its time.
DROP INDEX threads_deleted;
CREATE INDEX threads_deleted ON threads (deleted_at, org_id, id) WHERE deleted_at IS NOT NULL;
