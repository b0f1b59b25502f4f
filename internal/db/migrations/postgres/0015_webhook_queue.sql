-- +goose Up

-- What is still to be sent, and when: one row for each pending delivery, gone when that ends. ready ones are sent by whose turn the
-- destination is, the others wait until due_at. So little is rewritten here that would be much in the table of all deliveries.
CREATE TABLE webhook_queue (
    org_id         TEXT    COLLATE "C" NOT NULL,
    webhook_id     TEXT    COLLATE "C" NOT NULL,
    id             TEXT    COLLATE "C" NOT NULL,
    destination_id TEXT    COLLATE "C" NOT NULL,
    receipt_id     TEXT    COLLATE "C" NOT NULL,
    date           BIGINT  NOT NULL,
    retries        BIGINT  NOT NULL,
    ready          BOOLEAN NOT NULL,
    due_at         BIGINT  NOT NULL,
    PRIMARY KEY (org_id, webhook_id, id)
);
INSERT INTO webhook_queue (org_id, webhook_id, id, destination_id, receipt_id, date, retries, ready, due_at)
    SELECT org_id, webhook_id, id, destination_id, receipt_id, date, retries, queue = 1, due_at
    FROM webhook_deliveries WHERE status = 'pending';
CREATE INDEX webhook_queue_ready ON webhook_queue (destination_id, due_at, id) WHERE ready;
CREATE INDEX webhook_queue_waiting ON webhook_queue (due_at) WHERE NOT ready;

-- failed repeats the status. No index holds a column that a success changes, and pages keep room for the answer: so a success is written
-- beside its pending row, and no index hears of it.
ALTER TABLE webhook_deliveries ADD COLUMN failed BOOLEAN NOT NULL DEFAULT false;
UPDATE webhook_deliveries SET failed = true WHERE status = 'failed';
DROP INDEX webhook_deliveries_undelivered;
DROP INDEX webhook_deliveries_ready;
DROP INDEX webhook_deliveries_waiting;
ALTER TABLE webhook_deliveries DROP COLUMN queue;
ALTER TABLE webhook_deliveries DROP COLUMN due_at;
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (org_id, webhook_id, id) WHERE failed;
ALTER TABLE webhook_deliveries SET (fillfactor = 35);
