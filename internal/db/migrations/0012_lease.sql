-- A destination has a row in webhook_leases from its creation on, with no owner while nobody holds the
-- lease: taking one is an UPDATE, which can leave out rows that another transaction has locked.
INSERT INTO webhook_leases (destination_id, owner, expires_at)
SELECT id, '', 0 FROM webhook_destinations WHERE true ON CONFLICT (destination_id) DO NOTHING;

-- ran_at is when a job last ran to its end, in microseconds, so that its interval holds over restarts
-- and replicas.
ALTER TABLE leases ADD COLUMN ran_at BIGINT NOT NULL DEFAULT 0;
