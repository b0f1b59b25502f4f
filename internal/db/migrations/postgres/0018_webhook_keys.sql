-- +goose Up

-- A receipt, a delivery and its row in the queue are found by one text instead of three: the ULID of the webhook (26 characters), and then
-- their own. Most of what it takes to find or to write such a row is comparing keys.
CREATE TABLE webhook_receipts_next (
    key          TEXT    COLLATE "C" NOT NULL,
    date         BIGINT  NOT NULL,
    method       TEXT    NOT NULL,
    query        TEXT    NOT NULL,
    remote_addr  TEXT    NOT NULL,
    content_type TEXT    NOT NULL,
    size         BIGINT  NOT NULL,
    headers      TEXT    NOT NULL,
    body         BYTEA   NOT NULL
);
INSERT INTO webhook_receipts_next (key, date, method, query, remote_addr, content_type, size, headers, body)
    SELECT substr(webhook_id, 4) || substr(id, 6), date, method, query, remote_addr, content_type, size, headers, body
    FROM webhook_receipts;
DROP TABLE webhook_receipts;
ALTER TABLE webhook_receipts_next RENAME TO webhook_receipts;
ALTER TABLE webhook_receipts ADD CONSTRAINT webhook_receipts_pkey PRIMARY KEY (key);

-- Pages keep room for the answer, and no index holds a column that a success changes: so a success is written beside its pending row, and
-- no index hears of it.
CREATE TABLE webhook_deliveries_next (
    key            TEXT    COLLATE "C" NOT NULL,
    destination_id TEXT    COLLATE "C" NOT NULL,
    receipt_id     TEXT    COLLATE "C" NOT NULL,
    date           BIGINT  NOT NULL,
    status         TEXT    NOT NULL CHECK (status IN ('pending', 'success', 'failed')),
    failed         BOOLEAN NOT NULL,
    retries        BIGINT  NOT NULL,
    finished_at    BIGINT  NULL,
    error          TEXT    NULL,
    response       TEXT    NULL
) WITH (fillfactor = 30);
INSERT INTO webhook_deliveries_next (key, destination_id, receipt_id, date, status, failed, retries, finished_at, error, response)
    SELECT substr(webhook_id, 4) || substr(id, 6), destination_id, receipt_id, date, status, failed, retries, finished_at, error, response
    FROM webhook_deliveries;
DROP TABLE webhook_deliveries;
ALTER TABLE webhook_deliveries_next RENAME TO webhook_deliveries;
ALTER TABLE webhook_deliveries ADD CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (key);
CREATE INDEX webhook_deliveries_receipt ON webhook_deliveries (receipt_id, key);
CREATE INDEX webhook_deliveries_destination ON webhook_deliveries (destination_id, key);
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (key) WHERE failed;

-- The worker finds receipts by their keys, and counts for the organization of a delivery whose webhook may be gone.
CREATE TABLE webhook_queue_next (
    key            TEXT    COLLATE "C" NOT NULL,
    org_id         TEXT    COLLATE "C" NOT NULL,
    destination_id TEXT    COLLATE "C" NOT NULL,
    receipt_key    TEXT    COLLATE "C" NOT NULL,
    date           BIGINT  NOT NULL,
    retries        BIGINT  NOT NULL,
    ready          BOOLEAN NOT NULL,
    due_at         BIGINT  NOT NULL
);
INSERT INTO webhook_queue_next (key, org_id, destination_id, receipt_key, date, retries, ready, due_at)
    SELECT substr(webhook_id, 4) || substr(id, 6), org_id, destination_id, substr(webhook_id, 4) || substr(receipt_id, 6), date, retries,
        ready, due_at
    FROM webhook_queue;
DROP TABLE webhook_queue;
ALTER TABLE webhook_queue_next RENAME TO webhook_queue;
ALTER TABLE webhook_queue ADD CONSTRAINT webhook_queue_pkey PRIMARY KEY (key);
CREATE INDEX webhook_queue_ready ON webhook_queue (destination_id, due_at, key) WHERE ready;
CREATE INDEX webhook_queue_waiting ON webhook_queue (due_at) WHERE NOT ready;
