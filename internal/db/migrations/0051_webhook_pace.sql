-- config_schema is the version of the schema with which config was last saved: a key of config that is younger means
-- nothing. paused repeats the field of config: nothing in the queue of the destination is due.
ALTER TABLE webhook_destinations ADD COLUMN config_schema BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhook_destinations ADD COLUMN paused BOOLEAN NOT NULL DEFAULT false;

-- previous_secret is the sealed secret before the last rotation, which signs too until previous_until.
ALTER TABLE webhook_destinations ADD COLUMN previous_secret BYTEA NULL;
ALTER TABLE webhook_destinations ADD COLUMN previous_until BIGINT NULL;

-- others_until is the time until which another process than the owner may have sent to the destination. The rate of a
-- destination holds over a change of owners because the new one waits accordingly.
ALTER TABLE webhook_leases ADD COLUMN others_until BIGINT NOT NULL DEFAULT 0;
