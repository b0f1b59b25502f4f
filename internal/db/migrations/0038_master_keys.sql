-- The master keys that values were sealed with, by their ids, which do not reveal them.

-- used_at is when a process first started with the key. rotation_at is when the re-encryption of all values
-- with the key was begun, and rotated_at when it was completed: then the other keys are retired, and
-- processes do not start with them any more.
CREATE TABLE master_keys (
    id          TEXT   NOT NULL PRIMARY KEY,
    used_at     BIGINT NOT NULL,
    rotation_at BIGINT NULL,
    rotated_at  BIGINT NULL,
    retired_at  BIGINT NULL
);

-- How far the re-encryption with a key is in each table. A pass reads all rows in the order of their primary
-- key; position is the last one that was read, as a JSON array, or empty. The last pass is one that finds
-- nothing that is sealed with another key. resealed counts the values of all passes, the others those of the
-- current one. total is the number of rows at the beginning, or 0 if counting them took too long.
CREATE TABLE master_key_progress (
    key_id     TEXT    NOT NULL,
    source     TEXT    NOT NULL,
    pass       BIGINT  NOT NULL,
    position   TEXT    NOT NULL,
    done       BOOLEAN NOT NULL,
    total      BIGINT  NOT NULL,
    scanned    BIGINT  NOT NULL,
    stale      BIGINT  NOT NULL,
    unreadable BIGINT  NOT NULL,
    resealed   BIGINT  NOT NULL,
    PRIMARY KEY (key_id, source)
);

-- key_id is the master key that the process seals with. It is null for processes of earlier versions.
ALTER TABLE processes ADD COLUMN key_id TEXT NULL;
