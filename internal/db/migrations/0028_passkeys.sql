-- oidc_passkeys holds the passkeys of users. A sign-in does not name a user, so the id of the credential
-- alone must find the row. rp_id is the host name that the passkey was made for, and handle what it calls
-- its user: random, and the same in all passkeys of a user. sign_count is how often the authenticator says
-- that it has signed; it stays 0 if that does not count.
CREATE TABLE oidc_passkeys (
    user_id         TEXT    NOT NULL,
    id              TEXT    NOT NULL,
    credential_id   BYTEA   NOT NULL,
    rp_id           TEXT    NOT NULL,
    handle          BYTEA   NOT NULL,
    public_key      BYTEA   NOT NULL,
    backup_eligible BOOLEAN NOT NULL,
    sign_count      BIGINT  NOT NULL,
    name            TEXT    NOT NULL,
    created_at      BIGINT  NOT NULL,
    last_used_at    BIGINT  NULL,
    PRIMARY KEY (user_id, id)
);
CREATE UNIQUE INDEX oidc_passkeys_credential ON oidc_passkeys (credential_id);

-- oidc_challenges holds the challenges that a passkey has answered, to refuse the answers a second time.
CREATE TABLE oidc_challenges (
    challenge_hash BYTEA  NOT NULL PRIMARY KEY,
    expires_at     BIGINT NOT NULL
);
CREATE INDEX oidc_challenges_expires ON oidc_challenges (expires_at);
