-- OAuth clients with their consents and activity, signing keys, and the state of the OIDC provider:
-- pushed requests, grants, devices, browser sessions.

-- oidc_clients holds the registered clients. Lists are JSON arrays of strings. A protocol request
-- presents only the client's id, so the id alone must find the row.
CREATE TABLE oidc_clients (
    org_id                         TEXT    NOT NULL,
    id                             TEXT    NOT NULL,
    name                           TEXT    NOT NULL,
    description                    TEXT    NOT NULL,
    homepage_url                   TEXT    NOT NULL,
    icon                           TEXT    NULL,
    client_type                    TEXT    NOT NULL CHECK (client_type IN ('confidential', 'public')),
    redirect_uris                  TEXT    NOT NULL,
    post_logout_redirect_uris      TEXT    NOT NULL,
    grant_types                    TEXT    NOT NULL,
    response_types                 TEXT    NOT NULL,
    scopes                         TEXT    NOT NULL,
    project_id                     TEXT    NULL,
    access_token_lifetime_seconds  BIGINT  NULL,
    refresh_token_lifetime_seconds BIGINT  NULL,
    id_token_lifetime_seconds      BIGINT  NULL,
    allowed_user_ids               TEXT    NOT NULL,
    internal                       BOOLEAN NOT NULL,
    is_public                      BOOLEAN NOT NULL,
    secret_hash                    BYTEA   NULL,
    created_at                     BIGINT  NOT NULL,
    updated_at                     BIGINT  NOT NULL,
    version                        BIGINT  NOT NULL,
    audience                       TEXT    NULL,
    PRIMARY KEY (org_id, id),
    CHECK ((client_type = 'public') = (secret_hash IS NULL))
);
CREATE UNIQUE INDEX oidc_clients_id ON oidc_clients (id);
-- A token request names an audience without its client.
CREATE UNIQUE INDEX oidc_clients_audience ON oidc_clients (audience);
CREATE INDEX oidc_clients_name ON oidc_clients (org_id, lower(name) COLLATE "C");
CREATE INDEX oidc_clients_project ON oidc_clients (org_id, project_id);

-- oidc_client_states holds the part of a client that changes without a change of the client itself,
-- one row per client. A transaction that changes consents of a client locks this row first. epoch is
-- incremented when all users of the client are revoked: tokens and consents of an earlier epoch are
-- invalid.
CREATE TABLE oidc_client_states (
    org_id        TEXT   NOT NULL,
    client_id     TEXT   NOT NULL,
    epoch         BIGINT NOT NULL,
    user_count    BIGINT NOT NULL,
    last_activity BIGINT NULL,
    PRIMARY KEY (org_id, client_id)
);

-- oidc_consents holds what users have allowed clients, and the scopes that they have declined. A
-- consent is valid while its client_epoch is the epoch of the client. epoch is unique among the
-- consents of a user to a client over time. Tokens carry it, so that a new consent does not revive
-- the tokens of a revoked one.
CREATE TABLE oidc_consents (
    org_id       TEXT   NOT NULL,
    client_id    TEXT   NOT NULL,
    user_id      TEXT   NOT NULL,
    scopes       TEXT   NOT NULL,
    declined     TEXT   NOT NULL,
    epoch        BIGINT NOT NULL,
    client_epoch BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (org_id, client_id, user_id)
);
CREATE INDEX oidc_consents_newest ON oidc_consents (org_id, client_id, client_epoch, created_at, user_id);
CREATE INDEX oidc_consents_user ON oidc_consents (user_id, org_id, client_id);

-- oidc_purges lists what is invalid and still to be removed: consents of a client up to an epoch,
-- or everything of a deleted client.
CREATE TABLE oidc_purges (
    org_id    TEXT    NOT NULL,
    client_id TEXT    NOT NULL,
    epoch     BIGINT  NOT NULL,
    deleted   BOOLEAN NOT NULL,
    PRIMARY KEY (org_id, client_id)
);

-- oidc_client_days holds the activity per day, in days since 1970-01-01 UTC. users is the number of
-- rows that oidc_client_day_users has, or had, for the day.
CREATE TABLE oidc_client_days (
    org_id    TEXT   NOT NULL,
    client_id TEXT   NOT NULL,
    day       BIGINT NOT NULL,
    total     BIGINT NOT NULL,
    users     BIGINT NOT NULL,
    PRIMARY KEY (org_id, client_id, day)
);
CREATE INDEX oidc_client_days_day ON oidc_client_days (org_id, day, client_id);

-- oidc_client_day_users holds the users that were counted on a day. It is kept for a few days, after
-- which nobody is counted any more.
CREATE TABLE oidc_client_day_users (
    org_id    TEXT   NOT NULL,
    client_id TEXT   NOT NULL,
    day       BIGINT NOT NULL,
    user_id   TEXT   NOT NULL,
    PRIMARY KEY (org_id, client_id, day, user_id)
);
CREATE INDEX oidc_client_day_users_day ON oidc_client_day_users (day);

-- oidc_flushes holds one row per batch of activity that was written. A batch whose commit had an
-- unknown outcome is not counted twice.
CREATE TABLE oidc_flushes (
    id TEXT   NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL
);
CREATE INDEX oidc_flushes_at ON oidc_flushes (at);

-- oidc_keys holds the signing keys of the installation. private is sealed, and removed when the key
-- starts to retire.
CREATE TABLE oidc_keys (
    kid        TEXT   NOT NULL PRIMARY KEY,
    alg        TEXT   NOT NULL CHECK (alg IN ('RS256', 'ES256')),
    state      TEXT   NOT NULL CHECK (state IN ('next', 'active', 'retiring')),
    public     TEXT   NOT NULL,
    private    BYTEA  NULL,
    settled_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    active_at  BIGINT NULL,
    retired_at BIGINT NULL,
    CHECK ((state = 'retiring') = (private IS NULL))
);

-- oidc_pushed holds pushed authorization requests (RFC 9126). A request is deleted when it is used,
-- so that it can be used once.
CREATE TABLE oidc_pushed (
    id_hash    BYTEA  NOT NULL PRIMARY KEY,
    client_id  TEXT   NOT NULL,
    request    TEXT   NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX oidc_pushed_expires ON oidc_pushed (expires_at);

-- oidc_grants holds what a user granted to a client: one row per authorization code or approved
-- device. A refresh token names the row and a generation, and is authenticated by a MAC over both
-- with the salt, so that a family of refresh tokens is one row.
CREATE TABLE oidc_grants (
    id                 TEXT   NOT NULL PRIMARY KEY,
    org_id             TEXT   NOT NULL,
    client_id          TEXT   NOT NULL,
    user_id            TEXT   NOT NULL,
    session_id         TEXT   NULL,
    scopes             TEXT   NOT NULL,
    client_epoch       BIGINT NOT NULL,
    consent_epoch      BIGINT NOT NULL,
    auth_time          BIGINT NOT NULL,
    nonce              TEXT   NULL,
    code_hash          BYTEA  NULL,
    code_expires_at    BIGINT NULL,
    redirect_uri       TEXT   NULL,
    challenge          TEXT   NULL,
    jkt                TEXT   NULL,
    resource           TEXT   NULL,
    salt               BYTEA  NOT NULL,
    redeemed_at        BIGINT NULL,
    generation         BIGINT NOT NULL,
    rotated_at         BIGINT NULL,
    refresh_expires_at BIGINT NULL,
    revoked_at         BIGINT NULL,
    created_at         BIGINT NOT NULL,
    expires_at         BIGINT NOT NULL
);
CREATE UNIQUE INDEX oidc_grants_code ON oidc_grants (code_hash);
CREATE INDEX oidc_grants_expires ON oidc_grants (expires_at);
CREATE INDEX oidc_grants_user ON oidc_grants (user_id);

-- oidc_revoked holds grants, and access tokens by their jti, that were revoked before they expired.
-- A row is kept until the last token that it affects has expired.
CREATE TABLE oidc_revoked (
    id         TEXT   NOT NULL PRIMARY KEY,
    expires_at BIGINT NOT NULL
);
CREATE INDEX oidc_revoked_expires ON oidc_revoked (expires_at);

-- oidc_devices holds device authorization requests (RFC 8628).
CREATE TABLE oidc_devices (
    code_hash      BYTEA  NOT NULL PRIMARY KEY,
    user_code      TEXT   NOT NULL,
    client_id      TEXT   NOT NULL,
    scopes         TEXT   NOT NULL,
    resource       TEXT   NULL,
    state          TEXT   NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'redeemed')),
    grant_id       TEXT   NULL,
    pause_seconds  BIGINT NOT NULL,
    last_polled_at BIGINT NULL,
    created_at     BIGINT NOT NULL,
    expires_at     BIGINT NOT NULL
);
CREATE UNIQUE INDEX oidc_devices_user_code ON oidc_devices (user_code);
CREATE INDEX oidc_devices_expires ON oidc_devices (expires_at);

-- oidc_sessions holds the browsers in which a user is signed in. A session that ends is deleted,
-- which invalidates the refresh tokens that belong to it.
CREATE TABLE oidc_sessions (
    id           TEXT   NOT NULL PRIMARY KEY,
    token_hash   BYTEA  NOT NULL,
    user_id      TEXT   NOT NULL,
    auth_time    BIGINT NOT NULL,
    user_agent   TEXT   NOT NULL,
    remote_addr  TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    last_seen_at BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL
);
CREATE UNIQUE INDEX oidc_sessions_token ON oidc_sessions (token_hash);
CREATE INDEX oidc_sessions_user ON oidc_sessions (user_id, created_at);
CREATE INDEX oidc_sessions_expires ON oidc_sessions (expires_at);

-- oidc_proofs holds the DPoP proofs that were used, to refuse them a second time.
CREATE TABLE oidc_proofs (
    proof_hash BYTEA  NOT NULL PRIMARY KEY,
    expires_at BIGINT NOT NULL
);
CREATE INDEX oidc_proofs_expires ON oidc_proofs (expires_at);
