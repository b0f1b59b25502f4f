-- oidc_registration_tokens are initial access tokens, with which OAuth clients register themselves. uses is how
-- many may, and null without a limit. scopes is JSON, the scopes of the API that those clients may have, and null
-- for all.
CREATE TABLE oidc_registration_tokens (
    org_id     TEXT   NOT NULL,
    id         TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    token_hash BYTEA  NOT NULL,
    scopes     TEXT   NULL,
    uses       BIGINT NULL,
    used       BIGINT NOT NULL,
    expires_at BIGINT NULL,
    created_by TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX oidc_registration_tokens_hash ON oidc_registration_tokens (token_hash);

-- registration is how a client registered itself, and empty for one that a user created. registration_hash is
-- the hash of the registration access token, with which such a client changes itself.
ALTER TABLE oidc_clients ADD COLUMN registration TEXT NOT NULL DEFAULT '' CHECK (registration IN ('', 'token', 'anonymous'));
ALTER TABLE oidc_clients ADD COLUMN registration_hash BYTEA NULL;
CREATE INDEX oidc_clients_registration ON oidc_clients (org_id, registration, id) WHERE registration <> '';
