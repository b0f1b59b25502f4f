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
    access_token_lifetime_seconds  INTEGER  NULL,
    refresh_token_lifetime_seconds INTEGER  NULL,
    id_token_lifetime_seconds      INTEGER  NULL,
    allowed_user_ids               TEXT    NOT NULL,
    internal                       INTEGER NOT NULL,
    is_public                      INTEGER NOT NULL,
    secret_hash                    BLOB   NULL,
    created_at                     INTEGER  NOT NULL,
    updated_at                     INTEGER  NOT NULL,
    version                        INTEGER  NOT NULL,
    PRIMARY KEY (org_id, id),
    CHECK ((client_type = 'public') = (secret_hash IS NULL))
) STRICT;
CREATE UNIQUE INDEX oidc_clients_id ON oidc_clients (id);
CREATE INDEX oidc_clients_project ON oidc_clients (org_id, project_id);

-- What moves while a client does not change, one row for each client. Whoever changes consents of a client locks this row first.
-- epoch is raised when all of its users are revoked: tokens and consents of an earlier one are dead.
CREATE TABLE oidc_client_states (
    org_id        TEXT   NOT NULL,
    client_id     TEXT   NOT NULL,
    epoch         INTEGER NOT NULL,
    user_count    INTEGER NOT NULL,
    last_activity INTEGER NULL,
    PRIMARY KEY (org_id, client_id)
) STRICT;

-- A consent lives while its client_epoch is its client's epoch. Its own epoch is a number that no other consent of the same user to the
-- same client has: tokens carry it, so revoking and consenting again does not revive them.
CREATE TABLE oidc_consents (
    org_id       TEXT   NOT NULL,
    client_id    TEXT   NOT NULL,
    user_id      TEXT   NOT NULL,
    scopes       TEXT   NOT NULL,
    epoch        INTEGER NOT NULL,
    client_epoch INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    PRIMARY KEY (org_id, client_id, user_id)
) STRICT;
CREATE INDEX oidc_consents_newest ON oidc_consents (org_id, client_id, client_epoch, created_at, user_id);
CREATE INDEX oidc_consents_user ON oidc_consents (user_id, org_id, client_id);

-- Rows that are dead already and wait to be removed: consents of a client up to an epoch, and all the rest of a deleted client.
CREATE TABLE oidc_remains (
    org_id    TEXT    NOT NULL,
    client_id TEXT    NOT NULL,
    epoch     INTEGER  NOT NULL,
    deleted   INTEGER NOT NULL,
    PRIMARY KEY (org_id, client_id)
) STRICT;

-- Activity: day counts days since 1970 in UTC; users is how many rows the day has, or had, in oidc_client_day_users.
CREATE TABLE oidc_client_days (
    org_id    TEXT   NOT NULL,
    client_id TEXT   NOT NULL,
    day       INTEGER NOT NULL,
    total     INTEGER NOT NULL,
    users     INTEGER NOT NULL,
    PRIMARY KEY (org_id, client_id, day)
) STRICT;
CREATE INDEX oidc_client_days_day ON oidc_client_days (org_id, day, client_id);

-- Who was counted on a day; kept for a few days only, since nobody is counted later than that.
CREATE TABLE oidc_client_day_users (
    org_id    TEXT   NOT NULL,
    client_id TEXT   NOT NULL,
    day       INTEGER NOT NULL,
    user_id   TEXT   NOT NULL,
    PRIMARY KEY (org_id, client_id, day, user_id)
) STRICT;
CREATE INDEX oidc_client_day_users_day ON oidc_client_day_users (day);

-- One row for each batch of activity that was written, so that a batch whose commit was in doubt is not counted twice.
CREATE TABLE oidc_flushes (
    id TEXT   NOT NULL PRIMARY KEY,
    at INTEGER NOT NULL
) STRICT;
CREATE INDEX oidc_flushes_at ON oidc_flushes (at);

-- Signing keys of the installation. private is sealed, and gone from the moment a key is retiring.
CREATE TABLE oidc_keys (
    kid        TEXT   NOT NULL PRIMARY KEY,
    alg        TEXT   NOT NULL CHECK (alg IN ('RS256', 'ES256')),
    state      TEXT   NOT NULL CHECK (state IN ('next', 'active', 'retiring')),
    public     TEXT   NOT NULL,
    private    BLOB  NULL,
    settled_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    active_at  INTEGER NULL,
    retired_at INTEGER NULL,
    CHECK ((state = 'retiring') = (private IS NULL))
) STRICT;
