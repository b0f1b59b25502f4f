-- dedupe says how a webhook's repeated requests are recognized, as JSON; null if they are not.
ALTER TABLE webhooks ADD COLUMN dedupe TEXT NULL;

-- webhook_dedupe has a row for each request that a later one may repeat, until expires_at. key is the ULID of the webhook
-- and a hash, receipt_key the key of the first receipt. The transaction that accepts requests inserts its rows, or locks
-- those that exist, in the order of their keys.
CREATE TABLE webhook_dedupe (
    key         TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    receipt_key TEXT   COLLATE "C" NOT NULL,
    expires_at  BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX webhook_dedupe_expires ON webhook_dedupe (expires_at);
