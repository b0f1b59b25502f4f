-- +goose Up

-- What is still to be sent, and when: one row for each pending delivery, gone when that ends. ready ones are sent by whose turn the
-- destination is, the others wait until due_at. So little is rewritten here that would be much in the table of all deliveries.
CREATE TABLE webhook_queue (
    org_id         TEXT    NOT NULL,
    webhook_id     TEXT    NOT NULL,
    id             TEXT    NOT NULL,
    destination_id TEXT    NOT NULL,
    receipt_id     TEXT    NOT NULL,
    date           INTEGER NOT NULL,
    retries        INTEGER NOT NULL,
    ready          INTEGER NOT NULL,
    due_at         INTEGER NOT NULL,
    PRIMARY KEY (org_id, webhook_id, id)
) STRICT, WITHOUT ROWID;
INSERT INTO webhook_queue (org_id, webhook_id, id, destination_id, receipt_id, date, retries, ready, due_at)
    SELECT org_id, webhook_id, id, destination_id, receipt_id, date, retries, queue = 1, due_at
    FROM webhook_deliveries WHERE status = 'pending';
CREATE INDEX webhook_queue_ready ON webhook_queue (destination_id, due_at, id) WHERE ready;
CREATE INDEX webhook_queue_waiting ON webhook_queue (due_at) WHERE NOT ready;

-- failed repeats the status: on PostgreSQL no index may hold a column that a success changes.
ALTER TABLE webhook_deliveries ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
UPDATE webhook_deliveries SET failed = 1 WHERE status = 'failed';
DROP INDEX webhook_deliveries_undelivered;
DROP INDEX webhook_deliveries_ready;
DROP INDEX webhook_deliveries_waiting;
ALTER TABLE webhook_deliveries DROP COLUMN queue;
ALTER TABLE webhook_deliveries DROP COLUMN due_at;
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (org_id, webhook_id, id) WHERE failed;
