-- Organizations can be deleted. deleted_at is when an owner did so: from then on nobody can use the
-- organization, and an owner can restore it. removing is set after the grace period, when the removal of
-- all that it holds begins and it cannot be restored any more.
ALTER TABLE orgs ADD COLUMN deleted_at BIGINT NULL;
ALTER TABLE orgs ADD COLUMN removing BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX orgs_deleted ON orgs (deleted_at) WHERE deleted_at IS NOT NULL;

-- What other packages read of deletions.
CREATE VIEW deleted_orgs AS SELECT id AS org_id FROM orgs WHERE deleted_at IS NOT NULL;

-- The grants of an organization are removed with it.
CREATE INDEX oidc_grants_org ON oidc_grants (org_id);
