-- +goose Up

-- Webhooks and their destinations, receipts, deliveries with the queue of pending ones, leases on
-- destinations, and counts.

-- webhooks holds the webhooks. token_hash is the hash of the token in the ingest URL. An ingest
-- request names no organization, so the id alone must find the row.
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
CREATE INDEX webhooks_name ON webhooks (org_id, lower(name));
CREATE UNIQUE INDEX webhooks_id ON webhooks (id);

-- webhook_destinations holds where deliveries go. config and secret are sealed. disabled repeats the
-- field of config, so that ingest does not open it. The scheduler finds a destination by its id alone.
-- failing_since, failing_count and last_error tell of the attempts that failed since the last success.
CREATE TABLE webhook_destinations (
    org_id        TEXT    NOT NULL,
    webhook_id    TEXT    NOT NULL,
    id            TEXT    NOT NULL,
    type          TEXT    NOT NULL CHECK (type IN ('url', 'http', 'webhook')),
    disabled      INTEGER NOT NULL,
    config        BLOB    NOT NULL,
    secret        BLOB    NOT NULL,
    internal      INTEGER NOT NULL,
    metadata      TEXT    NULL,
    created_by    TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    failing_since INTEGER NULL,
    failing_count INTEGER NOT NULL,
    last_error    TEXT    NULL,
    PRIMARY KEY (org_id, webhook_id, id)
) STRICT;
CREATE UNIQUE INDEX webhook_destinations_id ON webhook_destinations (id);
CREATE INDEX webhook_destinations_failing ON webhook_destinations (org_id, failing_since) WHERE failing_since IS NOT NULL;

-- webhook_receipts holds the accepted requests. key is the ULID of the webhook (26 characters) and
-- the ULID of the receipt. body is the last column, so that reading the others does not touch it.
CREATE TABLE webhook_receipts (
    key          TEXT    NOT NULL PRIMARY KEY,
    date         INTEGER NOT NULL,
    method       TEXT    NOT NULL,
    query        TEXT    NOT NULL,
    remote_addr  TEXT    NOT NULL,
    content_type TEXT    NOT NULL,
    size         INTEGER NOT NULL,
    headers      TEXT    NOT NULL,
    body         BLOB    NOT NULL
) STRICT;

-- webhook_deliveries holds one row per attempt. key is the ULID of the webhook and the ULID of the
-- delivery. failed repeats status: on PostgreSQL no index may contain a column that a success
-- changes. The CHECK compares instead of using IN, for which SQLite builds a temporary table per row:
-- an insert takes 5 µs instead of 9, an update 4 instead of 6.
CREATE TABLE webhook_deliveries (
    key            TEXT    NOT NULL PRIMARY KEY,
    destination_id TEXT    NOT NULL,
    receipt_id     TEXT    NOT NULL,
    date           INTEGER NOT NULL,
    status         TEXT    NOT NULL CHECK (status = 'pending' OR status = 'success' OR status = 'failed'),
    failed         INTEGER NOT NULL,
    retries        INTEGER NOT NULL,
    finished_at    INTEGER NULL,
    error          TEXT    NULL,
    response       TEXT    NULL,
    replay_id      TEXT    NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_deliveries_receipt ON webhook_deliveries (receipt_id, key);
CREATE INDEX webhook_deliveries_destination ON webhook_deliveries (destination_id, key);
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (key) WHERE failed;

-- webhook_queue holds one row per pending delivery, with the delivery's key. The holder of the
-- destination's lease sends those that are due, in the order of (due_at, key). size is what headers
-- and body of the receipt take in memory; the index has it, so that a read of the queue does not
-- touch the table. org_id is for the counters: the webhook may be deleted by
-- the time the delivery ends.
CREATE TABLE webhook_queue (
    key            TEXT    NOT NULL PRIMARY KEY,
    org_id         TEXT    NOT NULL,
    destination_id TEXT    NOT NULL,
    receipt_key    TEXT    NOT NULL,
    date           INTEGER NOT NULL,
    retries        INTEGER NOT NULL,
    due_at         INTEGER NOT NULL,
    size           INTEGER NOT NULL,
    replay_id      TEXT    NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_queue_due ON webhook_queue (destination_id, due_at, key, size);

-- webhook_log lists the receipts and the ended deliveries of an organization in the order of their
-- commits, for the live tail. A row has those of one webhook and one transaction, at most 128: ids
-- are their ULIDs, 26 characters each, in ascending order, and key is the first of their keys. A row
-- for each batch costs ingest far less than a column of receipts and deliveries would, with an index.
CREATE TABLE webhook_log (
    org_id TEXT    NOT NULL,
    number INTEGER NOT NULL,
    key    TEXT    NOT NULL,
    kind   TEXT    NOT NULL CHECK (kind = 'receipt' OR kind = 'delivery'),
    at     INTEGER NOT NULL,
    ids    TEXT    NOT NULL,
    PRIMARY KEY (org_id, number, key)
) STRICT, WITHOUT ROWID;

-- webhook_replays holds the replays. status, destination_id, to_id and rate are empty or 0 if they
-- were not asked for. The worker walks the receipts of the window twice, in the order of their keys:
-- it counts what there is to deliver, up to counted_to, and adds deliveries, up to added_to.
-- next_due is when the next one may be due, for the rate. Of the deliveries that were added, done is
-- how many first attempts have ended.
CREATE TABLE webhook_replays (
    org_id         TEXT    NOT NULL,
    webhook_id     TEXT    NOT NULL,
    id             TEXT    NOT NULL,
    since          INTEGER NOT NULL,
    until          INTEGER NOT NULL,
    status         TEXT    NOT NULL,
    destination_id TEXT    NOT NULL,
    to_id          TEXT    NOT NULL,
    rate           INTEGER NOT NULL,
    state          TEXT    NOT NULL CHECK (state IN ('running', 'done', 'cancelled')),
    total          INTEGER NOT NULL,
    added          INTEGER NOT NULL,
    done           INTEGER NOT NULL,
    failed         INTEGER NOT NULL,
    counted        INTEGER NOT NULL,
    counted_to     TEXT    NOT NULL,
    walked         INTEGER NOT NULL,
    added_to       TEXT    NOT NULL,
    next_due       INTEGER NOT NULL,
    created_by     TEXT    NOT NULL,
    created_at     INTEGER NOT NULL,
    finished_at    INTEGER NULL,
    PRIMARY KEY (org_id, webhook_id, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_replays_running ON webhook_replays (id) WHERE state = 'running';

-- webhook_leases holds the leases on destinations: the owner alone sends to a destination, so that
-- concurrency and order hold over all replicas.
CREATE TABLE webhook_leases (
    destination_id TEXT    NOT NULL PRIMARY KEY,
    owner          TEXT    NOT NULL,
    expires_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- webhook_counts counts per minute, hour and day (unit, in seconds). bucket is the time divided by
-- the unit.
CREATE TABLE webhook_counts (
    org_id    TEXT    NOT NULL,
    unit      INTEGER NOT NULL,
    bucket    INTEGER NOT NULL,
    received  INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    failed    INTEGER NOT NULL,
    PRIMARY KEY (org_id, unit, bucket)
) STRICT, WITHOUT ROWID;

-- webhook_counts_each counts the same for each webhook.
CREATE TABLE webhook_counts_each (
    org_id     TEXT    NOT NULL,
    webhook_id TEXT    NOT NULL,
    unit       INTEGER NOT NULL,
    bucket     INTEGER NOT NULL,
    received   INTEGER NOT NULL,
    delivered  INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    PRIMARY KEY (org_id, webhook_id, unit, bucket)
) STRICT, WITHOUT ROWID;

-- webhook_totals counts the rows that a webhook has now, and how many of its deliveries are pending.
CREATE TABLE webhook_totals (
    org_id     TEXT    NOT NULL,
    webhook_id TEXT    NOT NULL,
    receipts   INTEGER NOT NULL,
    deliveries INTEGER NOT NULL,
    pending    INTEGER NOT NULL,
    PRIMARY KEY (org_id, webhook_id)
) STRICT, WITHOUT ROWID;

-- webhook_tombstones lists deleted webhooks whose receipts and deliveries are still to be removed.
CREATE TABLE webhook_tombstones (
    org_id     TEXT    NOT NULL,
    webhook_id TEXT    NOT NULL,
    deleted_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, webhook_id)
) STRICT, WITHOUT ROWID;
