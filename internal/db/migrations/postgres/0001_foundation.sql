-- +goose Up

-- One row for each fact about the installation (first start, master key check).
CREATE TABLE meta (
    key   TEXT   NOT NULL PRIMARY KEY,
    value TEXT   NOT NULL
);

-- One counter for each cache: raised by Tx.Bump, polled by RunWatch on the other replicas.
CREATE TABLE epochs (
    name TEXT   NOT NULL PRIMARY KEY,
    n    BIGINT NOT NULL
);

-- Background loops that only one replica runs at a time.
CREATE TABLE leases (
    name  TEXT   NOT NULL PRIMARY KEY,
    owner TEXT   NOT NULL,
    until BIGINT NOT NULL
);

CREATE TABLE orgs (
    id         TEXT   NOT NULL PRIMARY KEY,
    name       TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);

-- Users are people, who may be members of several organizations; email is stored in lower case.
CREATE TABLE users (
    id            TEXT   NOT NULL PRIMARY KEY,
    email         TEXT   NULL,
    first_name    TEXT   NULL,
    last_name     TEXT   NULL,
    photo_url     TEXT   NULL,
    password_hash TEXT   NULL,
    version       BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL
);
CREATE UNIQUE INDEX users_email ON users (email);

CREATE TABLE members (
    org_id     TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    role       TEXT   NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
    version    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (org_id, user_id)
);
CREATE INDEX members_user ON members (user_id);

-- Looked up by the hash of the token alone: whoever follows the link has no organization yet.
CREATE TABLE invitations (
    token_hash BYTEA  NOT NULL PRIMARY KEY,
    org_id     TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    created_by TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at    BIGINT NULL
);
CREATE INDEX invitations_org ON invitations (org_id, user_id);

CREATE TABLE projects (
    org_id     TEXT   NOT NULL,
    id         TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    version    BIGINT NOT NULL,
    PRIMARY KEY (org_id, id)
);

-- The hash alone finds a key: a request presents nothing else.
CREATE TABLE api_keys (
    org_id       TEXT   NOT NULL,
    id           TEXT   NOT NULL,
    hash         BYTEA  NOT NULL,
    name         TEXT   NOT NULL,
    type         TEXT   NOT NULL CHECK (type IN ('root', 'user', 'project')),
    project_id   TEXT   NULL,
    user_id      TEXT   NOT NULL,
    expires_at   BIGINT NULL,
    last_used_at BIGINT NULL,
    created_at   BIGINT NOT NULL,
    version      BIGINT NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX api_keys_hash ON api_keys (hash);
CREATE INDEX api_keys_newest ON api_keys (org_id, created_at, id);
CREATE INDEX api_keys_user ON api_keys (org_id, user_id, created_at, id);

CREATE TABLE audit (
    org_id      TEXT   NOT NULL,
    id          TEXT   NOT NULL,
    at          BIGINT NOT NULL,
    user_id     TEXT   NULL,
    key_id      TEXT   NULL,
    action      TEXT   NOT NULL,
    target      TEXT   NOT NULL,
    remote_addr TEXT   NOT NULL,
    request_id  TEXT   NOT NULL,
    PRIMARY KEY (org_id, id)
);

-- Answers kept for Idempotency-Key. scope is the hash of caller, method, path and key; answer is sealed.
CREATE TABLE idempotency (
    org_id     TEXT   NOT NULL,
    scope      BYTEA  NOT NULL,
    body_hash  BYTEA  NOT NULL,
    status     BIGINT NOT NULL,
    answer     BYTEA  NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (org_id, scope)
);
CREATE INDEX idempotency_created ON idempotency (created_at);
