-- The answers to completed uploads, and the checksums in lists of objects.

-- object_completions holds for a day what completing an upload was answered with, for clients that
-- repeat the request. checksum is JSON.
CREATE TABLE object_completions (
    upload_id    TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    bucket_id    TEXT   COLLATE "C" NOT NULL,
    key          TEXT   COLLATE "C" NOT NULL,
    etag         TEXT   NOT NULL,
    checksum     TEXT   NULL,
    completed_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX object_completions_completed ON object_completions (completed_at);

-- checksum has the algorithm and the type of the checksum in the attributes, such as
-- 'CRC32 FULL_OBJECT', so that lists need not read those.
ALTER TABLE objects ADD COLUMN checksum TEXT NULL;
UPDATE objects SET checksum = trim(json_extract(attributes, '$.checksum.algorithm') || ' ' || coalesce(json_extract(attributes, '$.checksum.type'), '')) -- sqlite
    WHERE json_extract(attributes, '$.checksum.algorithm') IS NOT NULL; -- sqlite
UPDATE objects SET checksum = trim((attributes::json #>> '{checksum,algorithm}') || ' ' || coalesce(attributes::json #>> '{checksum,type}', '')) -- postgres
    WHERE attributes::json #>> '{checksum,algorithm}' IS NOT NULL; -- postgres
