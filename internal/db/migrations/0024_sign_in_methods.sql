-- amr is how the user signed in: values of the claim amr (RFC 8176), separated by spaces. Sessions of
-- before began with a password; grants of before do not tell.
ALTER TABLE oidc_sessions ADD COLUMN amr TEXT NOT NULL DEFAULT 'pwd';
ALTER TABLE oidc_grants ADD COLUMN amr TEXT NOT NULL DEFAULT '';
