-- +goose Up

-- A receipt, a delivery and its row in the queue are found by one text instead of three: the ULID of the webhook (26 characters), and then
-- their own. Most of what it takes to find or to write such a row is comparing keys.
CREATE TABLE webhook_receipts_next (
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
INSERT INTO webhook_receipts_next (key, date, method, query, remote_addr, content_type, size, headers, body)
    SELECT substr(webhook_id, 4) || substr(id, 6), date, method, query, remote_addr, content_type, size, headers, body
    FROM webhook_receipts ORDER BY rowid;
DROP TABLE webhook_receipts;
ALTER TABLE webhook_receipts_next RENAME TO webhook_receipts;

CREATE TABLE webhook_deliveries_next (
    key            TEXT    NOT NULL PRIMARY KEY,
    destination_id TEXT    NOT NULL,
    receipt_id     TEXT    NOT NULL,
    date           INTEGER NOT NULL,
    status         TEXT    NOT NULL CHECK (status = 'pending' OR status = 'success' OR status = 'failed'),
    failed         INTEGER NOT NULL,
    retries        INTEGER NOT NULL,
    finished_at    INTEGER NULL,
    error          TEXT    NULL,
    response       TEXT    NULL
) STRICT, WITHOUT ROWID;
INSERT INTO webhook_deliveries_next (key, destination_id, receipt_id, date, status, failed, retries, finished_at, error, response)
    SELECT substr(webhook_id, 4) || substr(id, 6), destination_id, receipt_id, date, status, failed, retries, finished_at, error, response
    FROM webhook_deliveries ORDER BY org_id, webhook_id, id;
DROP TABLE webhook_deliveries;
ALTER TABLE webhook_deliveries_next RENAME TO webhook_deliveries;
CREATE INDEX webhook_deliveries_receipt ON webhook_deliveries (receipt_id, key);
CREATE INDEX webhook_deliveries_destination ON webhook_deliveries (destination_id, key);
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (key) WHERE failed;

-- The worker finds receipts by their keys, and counts for the organization of a delivery whose webhook may be gone.
CREATE TABLE webhook_queue_next (
    key            TEXT    NOT NULL PRIMARY KEY,
    org_id         TEXT    NOT NULL,
    destination_id TEXT    NOT NULL,
    receipt_key    TEXT    NOT NULL,
    date           INTEGER NOT NULL,
    retries        INTEGER NOT NULL,
    ready          INTEGER NOT NULL,
    due_at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO webhook_queue_next (key, org_id, destination_id, receipt_key, date, retries, ready, due_at)
    SELECT substr(webhook_id, 4) || substr(id, 6), org_id, destination_id, substr(webhook_id, 4) || substr(receipt_id, 6), date, retries,
        ready, due_at
    FROM webhook_queue ORDER BY org_id, webhook_id, id;
DROP TABLE webhook_queue;
ALTER TABLE webhook_queue_next RENAME TO webhook_queue;
CREATE INDEX webhook_queue_ready ON webhook_queue (destination_id, due_at, key) WHERE ready;
CREATE INDEX webhook_queue_waiting ON webhook_queue (due_at) WHERE NOT ready;

-- What earlier migrations told of the tables went with them.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('webhook_deliveries', 'webhook_deliveries', '1000000 1'),
    ('webhook_deliveries', 'webhook_deliveries_receipt', '1000000 3 1'),
    ('webhook_deliveries', 'webhook_deliveries_destination', '1000000 20000 1'),
    ('webhook_deliveries', 'webhook_deliveries_failed', '10000 1'),
    ('webhook_receipts', 'sqlite_autoindex_webhook_receipts_1', '1000000 1');
ANALYZE sqlite_schema;
