-- How the backups at a schedule are doing, in a row for each target that was set, which all replicas share. id
-- is made of a hash of the target. set_at is when it was first seen. began_at, succeeded_at, bytes and
-- elsewhere are of the last backup that succeeded: what was written, and the number of databases and key-value
-- stores that other nodes have and it has not. failed_at is when the last one failed, failures how many did
-- since, and error why.
CREATE TABLE backup_schedule (
    id           TEXT   NOT NULL PRIMARY KEY,
    set_at       BIGINT NOT NULL,
    began_at     BIGINT NULL,
    succeeded_at BIGINT NULL,
    bytes        BIGINT NOT NULL DEFAULT 0,
    elsewhere    BIGINT NOT NULL DEFAULT 0,
    failed_at    BIGINT NULL,
    failures     BIGINT NOT NULL DEFAULT 0,
    error        TEXT   NOT NULL DEFAULT ''
);
