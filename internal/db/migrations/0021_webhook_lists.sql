-- failing marks a delivery that failed, while no later attempt to deliver the same receipt to the same
-- destination has ended.
ALTER TABLE webhook_deliveries ADD COLUMN failing BOOLEAN NOT NULL DEFAULT false;
UPDATE webhook_deliveries SET failing = true WHERE failed AND NOT EXISTS (
    SELECT 1 FROM webhook_deliveries AS later WHERE later.receipt_id = webhook_deliveries.receipt_id
    AND later.destination_id || '' = webhook_deliveries.destination_id AND later.status <> 'pending'
    AND CASE WHEN later.replay_id = webhook_deliveries.replay_id THEN later.retries > webhook_deliveries.retries
        ELSE later.key > webhook_deliveries.key END);
CREATE INDEX webhook_deliveries_failing ON webhook_deliveries (key) WHERE failing = true; -- sqlite
CREATE INDEX webhook_deliveries_failing_of ON webhook_deliveries (destination_id, key) WHERE failing = true; -- sqlite
CREATE INDEX webhook_deliveries_failing ON webhook_deliveries (key) WHERE failing; -- postgres
CREATE INDEX webhook_deliveries_failing_of ON webhook_deliveries (destination_id, key) WHERE failing; -- postgres

-- SQLite counts from an index alone only if that has all columns of the conditions. A column that the
-- condition of the index compares with a constant counts as one of them.
DROP INDEX webhook_deliveries_failed; -- sqlite
DROP INDEX webhook_deliveries_failed_of; -- sqlite
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (key) WHERE failed = true; -- sqlite
CREATE INDEX webhook_deliveries_failed_of ON webhook_deliveries (destination_id, key) WHERE failed = true; -- sqlite
DROP INDEX webhook_queue_retries;
CREATE INDEX webhook_queue_retries ON webhook_queue (destination_id, due_at, key, retries) WHERE retries > 0;

-- Webhooks of users, and those of the system, which may be one for each bucket.
CREATE INDEX webhooks_internal ON webhooks (org_id, internal, id);
