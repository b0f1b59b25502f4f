-- token is the sealed token of the webhook's URL. It is null where only its hash was stored, and stale where a process
-- of an earlier version has rotated it: token_hash decides.
ALTER TABLE webhooks ADD COLUMN token BYTEA NULL;
