-- The sweep finds secrets that no longer sign.
CREATE INDEX webhook_destinations_previous ON webhook_destinations (previous_until) WHERE previous_until IS NOT NULL;
