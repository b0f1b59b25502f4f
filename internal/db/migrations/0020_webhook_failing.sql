-- Attempts that wait for a retry: pending ones that are not the first of their chain. One index has those
-- of a destination in the order in which they are due, the other those of a webhook, newest first. First
-- attempts are in neither.
CREATE INDEX webhook_queue_retries ON webhook_queue (destination_id, due_at, key) WHERE retries > 0;
CREATE INDEX webhook_queue_waiting ON webhook_queue (key) WHERE retries > 0;

-- replays are the ids, separated by spaces, of the replays that have made a waiting attempt due: they
-- count how it ends.
ALTER TABLE webhook_queue ADD COLUMN replays TEXT NOT NULL DEFAULT '';

-- webhook_recoveries holds the destinations whose waiting attempts are being made due, in batches. The
-- attempts of before started_at are walked in the order of (due_at, key), up to (to_due, to_key); each is
-- due at next_due, or before. rate is how many are due in a second, or 0.
CREATE TABLE webhook_recoveries (
    destination_id TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    rate           BIGINT NOT NULL,
    started_at     BIGINT NOT NULL,
    next_due       BIGINT NOT NULL,
    to_due         BIGINT NOT NULL,
    to_key         TEXT   COLLATE "C" NOT NULL
) WITHOUT ROWID;

-- A destination is failing until an attempt succeeds while none waits for a retry. failing_count is the
-- number of chains that have failed for good meanwhile; those that wait are counted in the queue.
UPDATE webhook_destinations SET failing_count = CASE WHEN EXISTS (
    SELECT 1 FROM webhook_queue q WHERE q.destination_id = webhook_destinations.id AND q.retries > 0) THEN 0 ELSE 1 END
WHERE failing_since IS NOT NULL;
UPDATE webhook_destinations SET
    failing_since = (SELECT MIN(q.date) FROM webhook_queue q WHERE q.destination_id = webhook_destinations.id AND q.retries > 0),
    last_error = COALESCE((SELECT d.error FROM webhook_deliveries d WHERE d.destination_id = webhook_destinations.id AND d.failed
        ORDER BY d.key DESC LIMIT 1), '')
WHERE failing_since IS NULL AND NOT disabled AND EXISTS (
    SELECT 1 FROM webhook_queue q WHERE q.destination_id = webhook_destinations.id AND q.retries > 0);
