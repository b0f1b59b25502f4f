-- Second factors of users, and the organizations that demand them.

-- oidc_authenticators holds the authenticator app of a user (RFC 6238). secret is sealed. last_step is the
-- time step of the last code that was accepted: a code of this step or an earlier one is refused.
-- failures counts the wrong codes since then, and no code is checked before retry_at.
CREATE TABLE oidc_authenticators (
    user_id    TEXT   NOT NULL PRIMARY KEY,
    secret     BYTEA  NOT NULL,
    last_step  BIGINT NOT NULL,
    failures   BIGINT NOT NULL,
    retry_at   BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);

-- oidc_recovery_codes holds the codes that replace one of the authenticator app. A used one is deleted.
CREATE TABLE oidc_recovery_codes (
    user_id   TEXT  NOT NULL,
    code_hash BYTEA NOT NULL,
    PRIMARY KEY (user_id, code_hash)
);

-- mfa_factor is what members with the role mfa_from, or a more powerful one, must sign in with.
ALTER TABLE orgs ADD COLUMN mfa_factor TEXT NULL CHECK (mfa_factor IN ('any', 'passkey'));
ALTER TABLE orgs ADD COLUMN mfa_from TEXT NULL CHECK (mfa_from IN ('owner', 'admin', 'member', 'viewer'));
ALTER TABLE orgs ADD COLUMN version BIGINT NOT NULL DEFAULT 1;
