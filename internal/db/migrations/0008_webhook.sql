-- Webhooks and their destinations, receipts, deliveries with the queue of pending ones, leases on
-- destinations, and counts.

-- webhooks holds the webhooks. token_hash is the hash of the token in the ingest URL. An ingest
-- request names no organization, so the id alone must find the row.
CREATE TABLE webhooks (
    org_id            TEXT    COLLATE "C" NOT NULL,
    id                TEXT    COLLATE "C" NOT NULL,
    name              TEXT    NOT NULL,
    description       TEXT    NULL,
    internal          BOOLEAN NOT NULL,
    metadata          TEXT    NULL,
    token_hash        BYTEA   NOT NULL,
    retention_seconds BIGINT  NULL,
    created_by        TEXT    NOT NULL,
    created_at        BIGINT  NOT NULL,
    updated_at        BIGINT  NOT NULL,
    version           BIGINT  NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX webhooks_name ON webhooks (org_id, lower(name) COLLATE "C");
CREATE UNIQUE INDEX webhooks_id ON webhooks (id);

-- webhook_destinations holds where deliveries go. config and secret are sealed. disabled repeats the
-- field of config, so that ingest does not open it. The scheduler finds a destination by its id alone.
-- failing_since, failing_count and last_error tell of the attempts that failed since the last success.
CREATE TABLE webhook_destinations (
    org_id        TEXT    COLLATE "C" NOT NULL,
    webhook_id    TEXT    COLLATE "C" NOT NULL,
    id            TEXT    COLLATE "C" NOT NULL,
    type          TEXT    NOT NULL CHECK (type IN ('url', 'http', 'webhook')),
    disabled      BOOLEAN NOT NULL,
    config        BYTEA   NOT NULL,
    secret        BYTEA   NOT NULL,
    internal      BOOLEAN NOT NULL,
    metadata      TEXT    NULL,
    created_by    TEXT    NOT NULL,
    created_at    BIGINT  NOT NULL,
    updated_at    BIGINT  NOT NULL,
    version       BIGINT  NOT NULL,
    failing_since BIGINT  NULL,
    failing_count BIGINT  NOT NULL,
    last_error    TEXT    NULL,
    PRIMARY KEY (org_id, webhook_id, id)
);
CREATE UNIQUE INDEX webhook_destinations_id ON webhook_destinations (id);
CREATE INDEX webhook_destinations_failing ON webhook_destinations (org_id, failing_since) WHERE failing_since IS NOT NULL;

-- webhook_receipts holds the accepted requests. key is the ULID of the webhook (26 characters) and
-- the ULID of the receipt. body is the last column, so that reading the others does not touch it.
CREATE TABLE webhook_receipts (
    key          TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    date         BIGINT NOT NULL,
    method       TEXT   NOT NULL,
    query        TEXT   NOT NULL,
    remote_addr  TEXT   NOT NULL,
    content_type TEXT   NOT NULL,
    size         BIGINT NOT NULL,
    headers      TEXT   NOT NULL,
    body         BYTEA  NOT NULL
);

-- webhook_deliveries holds one row per attempt. key is the ULID of the webhook and the ULID of the
-- delivery. failed repeats status, and no index contains a column that a success changes: with the
-- free space that fillfactor leaves in a page, a success updates its row in place on PostgreSQL (HOT).
-- Inserting 204,800 rows and updating each once takes 9.8 s and 193 MB of WAL, against 12.9 s and 331 MB
-- with fillfactor 100; table and indexes together are as large. On SQLite, the CHECK compares instead of
-- using IN, for which SQLite builds a temporary table per row: an insert takes 5 µs instead of 9, an
-- update 4 instead of 6.
CREATE TABLE webhook_deliveries (
    key            TEXT    COLLATE "C" NOT NULL PRIMARY KEY,
    destination_id TEXT    COLLATE "C" NOT NULL,
    receipt_id     TEXT    COLLATE "C" NOT NULL,
    date           BIGINT  NOT NULL,
    status         TEXT    NOT NULL CHECK (status = 'pending' OR status = 'success' OR status = 'failed'), -- sqlite
    status         TEXT    NOT NULL CHECK (status IN ('pending', 'success', 'failed')), -- postgres
    failed         BOOLEAN NOT NULL,
    retries        BIGINT  NOT NULL,
    finished_at    BIGINT  NULL,
    error          TEXT    NULL,
    response       TEXT    NULL,
    replay_id      TEXT    COLLATE "C" NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID; -- sqlite
) WITH (fillfactor = 30); -- postgres
CREATE INDEX webhook_deliveries_receipt ON webhook_deliveries (receipt_id, key);
CREATE INDEX webhook_deliveries_destination ON webhook_deliveries (destination_id, key);
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (key) WHERE failed;

-- webhook_queue holds one row per pending delivery, with the delivery's key. The holder of the
-- destination's lease sends those that are due, in the order of (due_at, key). size is what headers
-- and body of the receipt take in memory; the index has it, so that a read of the queue does not
-- touch the table. org_id is for the counters: the webhook may be deleted by
-- the time the delivery ends.
CREATE TABLE webhook_queue (
    key            TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    org_id         TEXT   COLLATE "C" NOT NULL,
    destination_id TEXT   COLLATE "C" NOT NULL,
    receipt_key    TEXT   COLLATE "C" NOT NULL,
    date           BIGINT NOT NULL,
    retries        BIGINT NOT NULL,
    due_at         BIGINT NOT NULL,
    size           BIGINT NOT NULL,
    replay_id      TEXT   COLLATE "C" NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX webhook_queue_due ON webhook_queue (destination_id, due_at, key, size);

-- webhook_log lists the receipts and the ended deliveries of an organization in the order of their
-- commits, for the live tail. A row has those of one webhook and one transaction, at most 128: ids
-- are their ULIDs, 26 characters each, in ascending order, and key is the first of their keys. A row
-- for each batch costs ingest far less than a column of receipts and deliveries would: it would have
-- an index, and a delivery that ends could no longer be updated in place on PostgreSQL.
CREATE TABLE webhook_log (
    org_id TEXT   COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    key    TEXT   COLLATE "C" NOT NULL,
    kind   TEXT    NOT NULL CHECK (kind = 'receipt' OR kind = 'delivery'), -- sqlite
    kind   TEXT   NOT NULL CHECK (kind IN ('receipt', 'delivery')), -- postgres
    at     BIGINT NOT NULL,
    ids    TEXT   NOT NULL,
    PRIMARY KEY (org_id, number, key)
) WITHOUT ROWID;

-- webhook_replays holds the replays. status, destination_id, to_id and rate are empty or 0 if they
-- were not asked for. The worker walks the receipts of the window twice, in the order of their keys:
-- it counts what there is to deliver, up to counted_to, and adds deliveries, up to added_to.
-- next_due is when the next one may be due, for the rate. Of the deliveries that were added, done is
-- how many first attempts have ended.
CREATE TABLE webhook_replays (
    org_id         TEXT    COLLATE "C" NOT NULL,
    webhook_id     TEXT    COLLATE "C" NOT NULL,
    id             TEXT    COLLATE "C" NOT NULL,
    since          BIGINT  NOT NULL,
    until          BIGINT  NOT NULL,
    status         TEXT    NOT NULL,
    destination_id TEXT    NOT NULL,
    to_id          TEXT    NOT NULL,
    rate           BIGINT  NOT NULL,
    state          TEXT    NOT NULL CHECK (state IN ('running', 'done', 'cancelled')),
    total          BIGINT  NOT NULL,
    added          BIGINT  NOT NULL,
    done           BIGINT  NOT NULL,
    failed         BIGINT  NOT NULL,
    counted        BOOLEAN NOT NULL,
    counted_to     TEXT    COLLATE "C" NOT NULL,
    walked         BOOLEAN NOT NULL,
    added_to       TEXT    COLLATE "C" NOT NULL,
    next_due       BIGINT  NOT NULL,
    created_by     TEXT    NOT NULL,
    created_at     BIGINT  NOT NULL,
    finished_at    BIGINT  NULL,
    PRIMARY KEY (org_id, webhook_id, id)
) WITHOUT ROWID;
CREATE INDEX webhook_replays_running ON webhook_replays (id) WHERE state = 'running';

-- webhook_leases holds the leases on destinations: the owner alone sends to a destination, so that
-- concurrency and order hold over all replicas.
CREATE TABLE webhook_leases (
    destination_id TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    owner          TEXT   NOT NULL,
    expires_at     BIGINT NOT NULL
) WITHOUT ROWID;

-- webhook_counts counts per minute, hour and day (unit, in seconds). bucket is the time divided by
-- the unit.
CREATE TABLE webhook_counts (
    org_id    TEXT   COLLATE "C" NOT NULL,
    unit      BIGINT NOT NULL,
    bucket    BIGINT NOT NULL,
    received  BIGINT NOT NULL,
    delivered BIGINT NOT NULL,
    failed    BIGINT NOT NULL,
    PRIMARY KEY (org_id, unit, bucket)
) WITHOUT ROWID;

-- webhook_counts_each counts the same for each webhook.
CREATE TABLE webhook_counts_each (
    org_id     TEXT   COLLATE "C" NOT NULL,
    webhook_id TEXT   COLLATE "C" NOT NULL,
    unit       BIGINT NOT NULL,
    bucket     BIGINT NOT NULL,
    received   BIGINT NOT NULL,
    delivered  BIGINT NOT NULL,
    failed     BIGINT NOT NULL,
    PRIMARY KEY (org_id, webhook_id, unit, bucket)
) WITHOUT ROWID;

-- webhook_totals counts the rows that a webhook has now, and how many of its deliveries are pending.
CREATE TABLE webhook_totals (
    org_id     TEXT   COLLATE "C" NOT NULL,
    webhook_id TEXT   COLLATE "C" NOT NULL,
    receipts   BIGINT NOT NULL,
    deliveries BIGINT NOT NULL,
    pending    BIGINT NOT NULL,
    PRIMARY KEY (org_id, webhook_id)
) WITHOUT ROWID;

-- webhook_tombstones lists deleted webhooks whose receipts and deliveries are still to be removed.
CREATE TABLE webhook_tombstones (
    org_id     TEXT   COLLATE "C" NOT NULL,
    webhook_id TEXT   COLLATE "C" NOT NULL,
    deleted_at BIGINT NOT NULL,
    PRIMARY KEY (org_id, webhook_id)
) WITHOUT ROWID;
