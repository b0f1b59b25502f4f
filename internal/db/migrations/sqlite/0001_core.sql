-- +goose Up

-- Tables that belong to no slice: facts about the installation, cache invalidation, leases of
-- background jobs, running processes, and the stored responses of requests with an Idempotency-Key.

-- meta holds one row per fact about the installation, such as the check of the master key.
CREATE TABLE meta (
    key   TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- epochs holds one counter per cache name. Tx.Bump increments it; RunWatch on the other replicas
-- reads it. raised_at, in microseconds of the database's clock, and raised_by, a process, serve the
-- measurement of how long that takes.
CREATE TABLE epochs (
    name      TEXT    NOT NULL PRIMARY KEY,
    n         INTEGER NOT NULL,
    raised_at INTEGER NOT NULL,
    raised_by TEXT    NOT NULL
) STRICT;

-- commit_numbers has one row: the number of the last commit that has one (Tx.NumberCommit).
CREATE TABLE commit_numbers (
    n INTEGER NOT NULL
) STRICT;
INSERT INTO commit_numbers (n) VALUES (0);

-- leases holds the background jobs that only one replica runs at a time.
CREATE TABLE leases (
    name  TEXT    NOT NULL PRIMARY KEY,
    owner TEXT    NOT NULL,
    until INTEGER NOT NULL
) STRICT;

-- processes holds the processes that serve this database, with the time of the last sign of life of
-- each.
CREATE TABLE processes (
    id      TEXT    NOT NULL PRIMARY KEY,
    seen_at INTEGER NOT NULL
) STRICT;

-- idempotency holds responses to repeat. scope is the hash of caller, method, path and key; answer
-- is sealed.
CREATE TABLE idempotency (
    org_id     TEXT    NOT NULL,
    scope      BLOB    NOT NULL,
    body_hash  BLOB    NOT NULL,
    status     INTEGER NOT NULL,
    answer     BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, scope)
) STRICT;
CREATE INDEX idempotency_created ON idempotency (created_at);
