-- +goose Up

-- One row for each fact about the installation (first start, master key check).
CREATE TABLE meta (
    key   TEXT    NOT NULL PRIMARY KEY,
    value TEXT    NOT NULL
) STRICT;

-- One counter for each cache: raised by Tx.Bump, polled by RunWatch on the other replicas.
CREATE TABLE epochs (
    name TEXT    NOT NULL PRIMARY KEY,
    n    INTEGER NOT NULL
) STRICT;

-- Background loops that only one replica runs at a time.
CREATE TABLE leases (
    name  TEXT    NOT NULL PRIMARY KEY,
    owner TEXT    NOT NULL,
    until INTEGER NOT NULL
) STRICT;

CREATE TABLE orgs (
    id         TEXT    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- Users are people, who may be members of several organizations; email is stored in lower case.
CREATE TABLE users (
    id            TEXT    NOT NULL PRIMARY KEY,
    email         TEXT    NULL,
    first_name    TEXT    NULL,
    last_name     TEXT    NULL,
    photo_url     TEXT    NULL,
    password_hash TEXT    NULL,
    version       INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX users_email ON users (email);

CREATE TABLE members (
    org_id     TEXT    NOT NULL,
    user_id    TEXT    NOT NULL,
    role       TEXT    NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
    version    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, user_id)
) STRICT;
CREATE INDEX members_user ON members (user_id);

-- Looked up by the hash of the token alone: whoever follows the link has no organization yet.
CREATE TABLE invitations (
    token_hash BLOB    NOT NULL PRIMARY KEY,
    org_id     TEXT    NOT NULL,
    user_id    TEXT    NOT NULL,
    created_by TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at    INTEGER NULL
) STRICT;
CREATE INDEX invitations_org ON invitations (org_id, user_id);

CREATE TABLE projects (
    org_id     TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    PRIMARY KEY (org_id, id)
) STRICT;

-- The hash alone finds a key: a request presents nothing else.
CREATE TABLE api_keys (
    org_id       TEXT    NOT NULL,
    id           TEXT    NOT NULL,
    hash         BLOB    NOT NULL,
    name         TEXT    NOT NULL,
    type         TEXT    NOT NULL CHECK (type IN ('root', 'user', 'project')),
    project_id   TEXT    NULL,
    user_id      TEXT    NOT NULL,
    expires_at   INTEGER NULL,
    last_used_at INTEGER NULL,
    created_at   INTEGER NOT NULL,
    version      INTEGER NOT NULL,
    PRIMARY KEY (org_id, id)
) STRICT;
CREATE UNIQUE INDEX api_keys_hash ON api_keys (hash);
CREATE INDEX api_keys_newest ON api_keys (org_id, created_at, id);
CREATE INDEX api_keys_user ON api_keys (org_id, user_id, created_at, id);

CREATE TABLE audit (
    org_id      TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    user_id     TEXT    NULL,
    key_id      TEXT    NULL,
    action      TEXT    NOT NULL,
    target      TEXT    NOT NULL,
    remote_addr TEXT    NOT NULL,
    request_id  TEXT    NOT NULL,
    PRIMARY KEY (org_id, id)
) STRICT;

-- Answers kept for Idempotency-Key. scope is the hash of caller, method, path and key; answer is sealed.
CREATE TABLE idempotency (
    org_id     TEXT    NOT NULL,
    scope      BLOB    NOT NULL,
    body_hash  BLOB    NOT NULL,
    status     INTEGER NOT NULL,
    answer     BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, scope)
) STRICT;
CREATE INDEX idempotency_created ON idempotency (created_at);
