-- +goose Up

-- The other keys of a thread, 8 bytes of the hash of each, so that a list by several keys need not look up the threads of one among those
-- of the others. NULL is not known: too many, or from before.
ALTER TABLE thread_facets ADD COLUMN mates BLOB NULL;
ALTER TABLE thread_changes ADD COLUMN mates BLOB NULL;

-- Only what is deleted is looked for by its time.
DROP INDEX threads_deleted;
CREATE INDEX threads_deleted ON threads (deleted_at, org_id, id) WHERE deleted_at IS NOT NULL;
