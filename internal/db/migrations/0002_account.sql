-- Organizations, users, their memberships and invitations, and projects.

CREATE TABLE orgs (
    id         TEXT   NOT NULL PRIMARY KEY,
    name       TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);

-- users are people. A user may be a member of several organizations. email is in lower case.
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

-- members are the users of an organization. A disabled one keeps the role and has no rights.
CREATE TABLE members (
    org_id     TEXT    NOT NULL,
    user_id    TEXT    NOT NULL,
    role       TEXT    NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
    disabled   BOOLEAN NOT NULL DEFAULT FALSE,
    version    BIGINT  NOT NULL,
    created_at BIGINT  NOT NULL,
    updated_at BIGINT  NOT NULL,
    PRIMARY KEY (org_id, user_id)
);
CREATE INDEX members_user ON members (user_id);

-- invitations are found by the hash of the token alone: the link does not name an organization.
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

-- password_resets holds the link with which a user can set a new password, at most one for each user:
-- a new link replaces the old one, and a used one is deleted.
CREATE TABLE password_resets (
    user_id    TEXT   NOT NULL PRIMARY KEY,
    token_hash BYTEA  NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX password_resets_token ON password_resets (token_hash);

-- projects are listed newest first. The oldest one of an organization is its default.
CREATE TABLE projects (
    org_id     TEXT   NOT NULL,
    id         TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    version    BIGINT NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX projects_name ON projects (org_id, lower(name) COLLATE "C");
CREATE INDEX projects_age ON projects (org_id, created_at, id);
