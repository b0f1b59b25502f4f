-- +goose Up

-- OAuth clients. Lists are JSON arrays of strings. A client is found by its id alone too: that is all a protocol request presents.
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
    PRIMARY KEY (org_id, id),
    CHECK ((client_type = 'public') = (secret_hash IS NULL))
);
CREATE UNIQUE INDEX oidc_clients_id ON oidc_clients (id);
CREATE INDEX oidc_clients_project ON oidc_clients (org_id, project_id);

-- What moves while a client does not change, one row for each client. Whoever changes consents of a client locks this row first.
-- epoch is raised when all of its users are revoked: tokens and consents of an earlier one are dead.
CREATE TABLE oidc_client_states (
    org_id        TEXT   NOT NULL,
    client_id     TEXT   NOT NULL,
    epoch         BIGINT NOT NULL,
    user_count    BIGINT NOT NULL,
    last_activity BIGINT NULL,
    PRIMARY KEY (org_id, client_id)
);

-- A consent lives while its client_epoch is its client's epoch. Its own epoch is a number that no other consent of the same user to the
-- same client has: tokens carry it, so revoking and consenting again does not revive them.
CREATE TABLE oidc_consents (
    org_id       TEXT   NOT NULL,
    client_id    TEXT   NOT NULL,
    user_id      TEXT   NOT NULL,
    scopes       TEXT   NOT NULL,
    epoch        BIGINT NOT NULL,
    client_epoch BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    PRIMARY KEY (org_id, client_id, user_id)
);
CREATE INDEX oidc_consents_newest ON oidc_consents (org_id, client_id, client_epoch, created_at, user_id);
CREATE INDEX oidc_consents_user ON oidc_consents (user_id, org_id, client_id);

-- Rows that are dead already and wait to be removed: consents of a client up to an epoch, and all the rest of a deleted client.
CREATE TABLE oidc_remains (
    org_id    TEXT    NOT NULL,
    client_id TEXT    NOT NULL,
    epoch     BIGINT  NOT NULL,
    deleted   BOOLEAN NOT NULL,
    PRIMARY KEY (org_id, client_id)
);

-- Activity: day counts days since 1970 in UTC; users is how many rows the day has, or had, in oidc_client_day_users.
CREATE TABLE oidc_client_days (
    org_id    TEXT   NOT NULL,
    client_id TEXT   NOT NULL,
    day       BIGINT NOT NULL,
    total     BIGINT NOT NULL,
    users     BIGINT NOT NULL,
    PRIMARY KEY (org_id, client_id, day)
);
CREATE INDEX oidc_client_days_day ON oidc_client_days (org_id, day, client_id);

-- Who was counted on a day; kept for a few days only, since nobody is counted later than that.
CREATE TABLE oidc_client_day_users (
    org_id    TEXT   NOT NULL,
    client_id TEXT   NOT NULL,
    day       BIGINT NOT NULL,
    user_id   TEXT   NOT NULL,
    PRIMARY KEY (org_id, client_id, day, user_id)
);
CREATE INDEX oidc_client_day_users_day ON oidc_client_day_users (day);

-- One row for each batch of activity that was written, so that a batch whose commit was in doubt is not counted twice.
CREATE TABLE oidc_flushes (
    id TEXT   NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL
);
CREATE INDEX oidc_flushes_at ON oidc_flushes (at);

-- Signing keys of the installation. private is sealed, and gone from the moment a key is retiring.
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
