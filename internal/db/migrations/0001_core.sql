-- Tables that belong to no slice: facts about the installation, cache invalidation, leases of
-- background jobs, running processes, and the stored responses of requests with an Idempotency-Key.

-- meta holds one row per fact about the installation, such as the check of the master key.
CREATE TABLE meta (
    key   TEXT   NOT NULL PRIMARY KEY,
    value TEXT   NOT NULL
);

-- epochs holds one counter per cache name. Tx.Bump increments it; RunWatch on the other replicas
-- reads it. raised_at, in microseconds of the database's clock, and raised_by, a process, serve the
-- measurement of how long that takes.
CREATE TABLE epochs (
    name      TEXT   NOT NULL PRIMARY KEY,
    n         BIGINT NOT NULL,
    raised_at BIGINT NOT NULL,
    raised_by TEXT   NOT NULL
);

-- commit_numbers has one row. Numbers of commits (Tx.NumberCommit): on SQLite, n is that of the last
-- commit that has one; on PostgreSQL, they are the transaction's id plus n, which is raised when the
-- database is restored on a server whose transaction ids are lower.
CREATE TABLE commit_numbers (
    n BIGINT NOT NULL
);
INSERT INTO commit_numbers (n) VALUES (0);

-- leases holds the background jobs that only one replica runs at a time.
CREATE TABLE leases (
    name  TEXT   NOT NULL PRIMARY KEY,
    owner TEXT   NOT NULL,
    until BIGINT NOT NULL
);

-- processes holds the processes that serve this database, with the time of the last sign of life of
-- each.
CREATE TABLE processes (
    id      TEXT   NOT NULL PRIMARY KEY,
    seen_at BIGINT NOT NULL
);

-- idempotency holds responses to repeat. scope is the hash of caller, method, path and key; answer
-- is sealed.
CREATE TABLE idempotency (
    org_id     TEXT   NOT NULL,
    scope      BYTEA  NOT NULL,
    body_hash  BYTEA  NOT NULL,
    status     BIGINT NOT NULL,
    answer     BYTEA  NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (org_id, scope)
);
CREATE INDEX idempotency_created ON idempotency (created_at);
