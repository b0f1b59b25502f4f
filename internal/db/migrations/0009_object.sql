-- Buckets, their objects with counted blocks of keys, totals and usage, multipart uploads, and the
-- blobs that they refer to.

-- buckets holds the buckets. secret is sealed. Objects belong to the id, so that a new bucket never
-- has what an old one of the same name left. cors and additional_headers are JSON.
CREATE TABLE buckets (
    name               TEXT    COLLATE "C" NOT NULL PRIMARY KEY,
    id                 TEXT    COLLATE "C" NOT NULL,
    org_id             TEXT    COLLATE "C" NOT NULL,
    region             TEXT    COLLATE "C" NOT NULL,
    description        TEXT    NULL,
    access_key         TEXT    COLLATE "C" NOT NULL,
    secret             BYTEA   NOT NULL,
    internal           BOOLEAN NOT NULL,
    webhook_id         TEXT    NULL,
    storage_tier       TEXT    NULL CHECK (storage_tier IN ('STANDARD', 'INFREQUENT_ACCESS', 'ARCHIVE')),
    ttl_seconds        BIGINT  NULL,
    public             BOOLEAN NULL,
    cache_control      TEXT    NULL,
    cors               TEXT    NULL,
    additional_headers TEXT    NULL,
    created_by         TEXT    NOT NULL,
    created_at         BIGINT  NOT NULL,
    updated_at         BIGINT  NOT NULL,
    version            BIGINT  NOT NULL
);
CREATE UNIQUE INDEX buckets_id ON buckets (id);
CREATE UNIQUE INDEX buckets_access_key ON buckets (access_key);
CREATE INDEX buckets_name ON buckets (org_id, lower(name) COLLATE "C");
CREATE INDEX buckets_org ON buckets (org_id, region, name);
CREATE INDEX buckets_ttl ON buckets (id) WHERE ttl_seconds IS NOT NULL;

-- bucket_states holds one row per bucket, which every transaction that changes its objects locks
-- first. Deleting the bucket deletes it.
CREATE TABLE bucket_states (
    bucket_id     TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    last_event_at BIGINT NULL
) WITHOUT ROWID;

-- bucket_totals counts what a bucket holds now.
CREATE TABLE bucket_totals (
    org_id    TEXT   COLLATE "C" NOT NULL,
    bucket_id TEXT   COLLATE "C" NOT NULL,
    tier      TEXT   COLLATE "C" NOT NULL,
    objects   BIGINT NOT NULL,
    bytes     BIGINT NOT NULL,
    PRIMARY KEY (org_id, bucket_id, tier)
) WITHOUT ROWID;

-- object_usage has by how much the objects of an organization changed on a day, in days since 1970.
-- What it held at the end of a day is what it holds now without the changes of later days.
CREATE TABLE object_usage (
    org_id  TEXT   COLLATE "C" NOT NULL,
    day     BIGINT NOT NULL,
    tier    TEXT   COLLATE "C" NOT NULL,
    objects BIGINT NOT NULL,
    bytes   BIGINT NOT NULL,
    PRIMARY KEY (org_id, day, tier)
) WITHOUT ROWID;

-- objects holds the objects. blobs and attributes are JSON: [[id, size], …] with one blob per part,
-- and what the client sent with the object. They are the last columns, so that counting does not
-- touch them.
CREATE TABLE objects (
    bucket_id    TEXT   COLLATE "C" NOT NULL,
    key          TEXT   COLLATE "C" NOT NULL,
    size         BIGINT NOT NULL,
    modified_at  BIGINT NOT NULL,
    tier         TEXT   NOT NULL CHECK (tier IN ('STANDARD', 'INFREQUENT_ACCESS', 'ARCHIVE')),
    etag         TEXT   NOT NULL,
    content_type TEXT   NULL,
    attributes   TEXT   NOT NULL,
    blobs        TEXT   NOT NULL,
    PRIMARY KEY (bucket_id, key)
) WITHOUT ROWID;
CREATE INDEX objects_modified ON objects (bucket_id, modified_at, key);

-- object_blocks counts the objects of a bucket by ranges of keys: a block has those from first_key up
-- to the first_key of the next block. The first block of a bucket begins with ''.
CREATE TABLE object_blocks (
    bucket_id TEXT   COLLATE "C" NOT NULL,
    first_key TEXT   COLLATE "C" NOT NULL,
    objects   BIGINT NOT NULL,
    bytes     BIGINT NOT NULL,
    PRIMARY KEY (bucket_id, first_key)
) WITHOUT ROWID;

-- blobs holds one row per blob that an object or a part refers to. garbage_at is when the reference
-- was removed: bytes and row are deleted some time later.
CREATE TABLE blobs (
    id         TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    garbage_at BIGINT NULL
) WITHOUT ROWID;
CREATE INDEX blobs_garbage ON blobs (garbage_at) WHERE garbage_at IS NOT NULL;

-- object_uploads holds the multipart uploads under way.
CREATE TABLE object_uploads (
    id           TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    bucket_id    TEXT   COLLATE "C" NOT NULL,
    key          TEXT   COLLATE "C" NOT NULL,
    tier         TEXT   NOT NULL,
    content_type TEXT   NULL,
    attributes   TEXT   NOT NULL,
    created_at   BIGINT NOT NULL
);
CREATE INDEX object_uploads_key ON object_uploads (bucket_id, key, id);
CREATE INDEX object_uploads_created ON object_uploads (created_at);

-- object_parts holds their parts. checksum is JSON.
CREATE TABLE object_parts (
    upload_id   TEXT   COLLATE "C" NOT NULL,
    number      BIGINT NOT NULL,
    blob_id     TEXT   NOT NULL,
    size        BIGINT NOT NULL,
    etag        TEXT   NOT NULL,
    checksum    TEXT   NULL,
    modified_at BIGINT NOT NULL,
    PRIMARY KEY (upload_id, number)
) WITHOUT ROWID;

-- bucket_purges lists deleted buckets whose objects, blocks and uploads are still to be removed.
CREATE TABLE bucket_purges (
    bucket_id  TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    deleted_at BIGINT NOT NULL
);
