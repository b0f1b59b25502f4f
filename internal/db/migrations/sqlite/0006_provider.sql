-- +goose Up

-- Authorization requests that a client pushed (RFC 9126). Taking one up deletes it, so each serves once.
CREATE TABLE oidc_pushed (
    id_hash    BLOB    NOT NULL PRIMARY KEY,
    client_id  TEXT    NOT NULL,
    request    TEXT    NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX oidc_pushed_expires ON oidc_pushed (expires_at);

-- What a user let a client do, once: made with the authorization code (or the device's approval), which is redeemed once. Refresh tokens
-- name this row and a generation, and are proved by a MAC over both and the salt: a family is one row, however often it turns.
CREATE TABLE oidc_grants (
    id                 TEXT    NOT NULL PRIMARY KEY,
    org_id             TEXT    NOT NULL,
    client_id          TEXT    NOT NULL,
    user_id            TEXT    NOT NULL,
    session_id         TEXT    NULL,
    scopes             TEXT    NOT NULL,
    client_epoch       INTEGER NOT NULL,
    consent_epoch      INTEGER NOT NULL,
    auth_time          INTEGER NOT NULL,
    nonce              TEXT    NULL,
    code_hash          BLOB    NULL,
    code_expires_at    INTEGER NULL,
    redirect_uri       TEXT    NULL,
    challenge          TEXT    NULL,
    jkt                TEXT    NULL,
    salt               BLOB    NOT NULL,
    redeemed_at        INTEGER NULL,
    generation         INTEGER NOT NULL,
    rotated_at         INTEGER NULL,
    refresh_expires_at INTEGER NULL,
    revoked_at         INTEGER NULL,
    created_at         INTEGER NOT NULL,
    expires_at         INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX oidc_grants_code ON oidc_grants (code_hash);
CREATE INDEX oidc_grants_expires ON oidc_grants (expires_at);

-- Grants and single access tokens (by jti) that are void before their time. A row goes when the last token it can concern has expired.
CREATE TABLE oidc_revoked (
    id         TEXT    NOT NULL PRIMARY KEY,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX oidc_revoked_expires ON oidc_revoked (expires_at);

-- Devices that wait for a user (RFC 8628).
CREATE TABLE oidc_devices (
    code_hash      BLOB    NOT NULL PRIMARY KEY,
    user_code      TEXT    NOT NULL,
    client_id      TEXT    NOT NULL,
    scopes         TEXT    NOT NULL,
    state          TEXT    NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'redeemed')),
    grant_id       TEXT    NULL,
    pause_seconds  INTEGER NOT NULL,
    last_polled_at INTEGER NULL,
    created_at     INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX oidc_devices_user_code ON oidc_devices (user_code);
CREATE INDEX oidc_devices_expires ON oidc_devices (expires_at);

-- Browsers in which a user is signed in. A session that ends is deleted, and with it go the refresh tokens that hang on it.
CREATE TABLE oidc_sessions (
    id           TEXT    NOT NULL PRIMARY KEY,
    token_hash   BLOB    NOT NULL,
    user_id      TEXT    NOT NULL,
    auth_time    INTEGER NOT NULL,
    user_agent   TEXT    NOT NULL,
    remote_addr  TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX oidc_sessions_token ON oidc_sessions (token_hash);
CREATE INDEX oidc_sessions_user ON oidc_sessions (user_id, created_at);
CREATE INDEX oidc_sessions_expires ON oidc_sessions (expires_at);

-- DPoP proofs that were seen; each serves once.
CREATE TABLE oidc_proofs (
    proof_hash BLOB    NOT NULL PRIMARY KEY,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX oidc_proofs_expires ON oidc_proofs (expires_at);
