-- group_names are the groups that the provider named at the last sign-in with the identity, in JSON.
ALTER TABLE oidc_identities ADD COLUMN group_names TEXT NOT NULL DEFAULT '[]';
