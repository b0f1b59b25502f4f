-- +goose Up

-- token_hash is what the ingest URL's token is compared with. An ingest request names no organization, so the id alone must find the row.
CREATE TABLE webhooks (
    org_id            TEXT    NOT NULL,
    id                TEXT    NOT NULL,
    name              TEXT    NOT NULL,
    description       TEXT    NULL,
    internal          INTEGER NOT NULL,
    metadata          TEXT    NULL,
    token_hash        BLOB    NOT NULL,
    retention_seconds INTEGER NULL,
    created_by        TEXT    NOT NULL,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    version           INTEGER NOT NULL,
    PRIMARY KEY (org_id, id)
) STRICT;
CREATE UNIQUE INDEX webhooks_id ON webhooks (id);

-- disabled repeats config's field, so that ingest need not read the configuration. The worker knows a destination by its id alone.
CREATE TABLE webhook_destinations (
    org_id     TEXT    NOT NULL,
    webhook_id TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    type       TEXT    NOT NULL CHECK (type IN ('url', 'http', 'webhook')),
    disabled   INTEGER NOT NULL,
    config     TEXT    NOT NULL,
    secret     BLOB    NOT NULL,
    internal   INTEGER NOT NULL,
    metadata   TEXT    NULL,
    created_by TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    PRIMARY KEY (org_id, webhook_id, id)
) STRICT;
CREATE UNIQUE INDEX webhook_destinations_id ON webhook_destinations (id);

-- body stands last: what reads the columns before it never touches its pages.
CREATE TABLE webhook_receipts (
    org_id       TEXT    NOT NULL,
    webhook_id   TEXT    NOT NULL,
    id           TEXT    NOT NULL,
    date         INTEGER NOT NULL,
    method       TEXT    NOT NULL,
    query        TEXT    NOT NULL,
    remote_addr  TEXT    NOT NULL,
    content_type TEXT    NOT NULL,
    size         INTEGER NOT NULL,
    headers      TEXT    NOT NULL,
    body         BLOB    NOT NULL,
    PRIMARY KEY (org_id, webhook_id, id)
) STRICT;

-- One row for each attempt. queue says where a pending one stands: 1 ready to be claimed, 2 waiting for due_at, which is the time of its
-- retry, or the end of the lease of whoever is sending it; 0 is done.
CREATE TABLE webhook_deliveries (
    org_id         TEXT    NOT NULL,
    webhook_id     TEXT    NOT NULL,
    id             TEXT    NOT NULL,
    destination_id TEXT    NOT NULL,
    receipt_id     TEXT    NOT NULL,
    date           INTEGER NOT NULL,
    status         TEXT    NOT NULL CHECK (status IN ('pending', 'success', 'failed')),
    retries        INTEGER NOT NULL,
    queue          INTEGER NOT NULL CHECK (queue IN (0, 1, 2) AND (queue > 0) = (status = 'pending')),
    due_at         INTEGER NOT NULL,
    lease_owner    TEXT    NOT NULL,
    finished_at    INTEGER NULL,
    error          TEXT    NULL,
    response       TEXT    NULL,
    PRIMARY KEY (org_id, webhook_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_deliveries_receipt ON webhook_deliveries (org_id, webhook_id, receipt_id, id);
CREATE INDEX webhook_deliveries_destination ON webhook_deliveries (org_id, webhook_id, destination_id, id);
CREATE INDEX webhook_deliveries_undelivered ON webhook_deliveries (org_id, webhook_id, status, id) WHERE status <> 'success';
CREATE INDEX webhook_deliveries_ready ON webhook_deliveries (destination_id, due_at, id) WHERE queue = 1;
CREATE INDEX webhook_deliveries_waiting ON webhook_deliveries (due_at) WHERE queue = 2;

-- Which process works on a destination: its concurrency and order hold over all replicas. Rows are safe without it, by their leases.
CREATE TABLE webhook_turns (
    destination_id TEXT    NOT NULL PRIMARY KEY,
    owner          TEXT    NOT NULL,
    until          INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Counts for each minute, hour and day (unit, in seconds); bucket is the time divided by the unit. Replicas write different shards.
CREATE TABLE webhook_counts (
    org_id    TEXT    NOT NULL,
    unit      INTEGER NOT NULL,
    bucket    INTEGER NOT NULL,
    shard     INTEGER NOT NULL,
    received  INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    failed    INTEGER NOT NULL,
    PRIMARY KEY (org_id, unit, bucket, shard)
) STRICT, WITHOUT ROWID;

-- How many rows a webhook has now.
CREATE TABLE webhook_totals (
    org_id     TEXT    NOT NULL,
    webhook_id TEXT    NOT NULL,
    shard      INTEGER NOT NULL,
    receipts   INTEGER NOT NULL,
    deliveries INTEGER NOT NULL,
    PRIMARY KEY (org_id, webhook_id, shard)
) STRICT, WITHOUT ROWID;

-- Deleted webhooks whose receipts and deliveries are still to be removed.
CREATE TABLE webhook_graves (
    org_id     TEXT    NOT NULL,
    webhook_id TEXT    NOT NULL,
    deleted_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, webhook_id)
) STRICT, WITHOUT ROWID;

-- SQLite gathers no statistics by itself, and without any it takes the primary key for every question about a webhook, past a million rows
-- for one. So it is told once what these tables look like when it matters: rows, then rows for each value of one, two, … columns.
ANALYZE;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('webhook_deliveries', 'webhook_deliveries', '1000000 100000 50000 1'),
    ('webhook_deliveries', 'webhook_deliveries_receipt', '1000000 100000 50000 3 1'),
    ('webhook_deliveries', 'webhook_deliveries_destination', '1000000 100000 50000 20000 1'),
    ('webhook_deliveries', 'webhook_deliveries_undelivered', '10000 1000 500 300 1'),
    ('webhook_deliveries', 'webhook_deliveries_ready', '10000 100 10 1'),
    ('webhook_deliveries', 'webhook_deliveries_waiting', '10000 10'),
    ('webhook_receipts', 'sqlite_autoindex_webhook_receipts_1', '1000000 100000 50000 1');
ANALYZE sqlite_schema;
