-- filtered counts the deliveries that were not made because the destination's filter did not match.
ALTER TABLE webhook_counts ADD COLUMN filtered BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhook_counts_each ADD COLUMN filtered BIGINT NOT NULL DEFAULT 0;
