-- receipt_ids are the ULIDs of the receipts that a replay was given, with a space between them, and selected is their
-- number. A replay of a stretch of time has none.
ALTER TABLE webhook_replays ADD COLUMN selected BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhook_replays ADD COLUMN receipt_ids TEXT NOT NULL DEFAULT '';
