-- The system webhooks that receive the entries of their organization's audit log.
CREATE INDEX webhooks_audit ON webhooks (org_id, id) WHERE metadata = '{"type":"audit"}';
