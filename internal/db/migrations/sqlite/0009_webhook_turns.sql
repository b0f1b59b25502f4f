-- +goose Up

-- Whose turn a destination is says enough about its deliveries: they need no lease of their own any more.
UPDATE webhook_deliveries SET queue = 1, due_at = date WHERE queue = 2 AND lease_owner <> '';
DELETE FROM webhook_turns;
ALTER TABLE webhook_deliveries DROP COLUMN lease_owner;
