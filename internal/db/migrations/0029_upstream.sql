-- oidc_upstreams are the OpenID Connect providers with which members of an organization sign in.
-- client_secret is sealed, and null for a public client. scopes, domains and group_roles are JSON.
-- default_role is that of new users, and null if only invited members may sign in.
CREATE TABLE oidc_upstreams (
    org_id        TEXT    NOT NULL,
    id            TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    issuer        TEXT    NOT NULL,
    client_id     TEXT    NOT NULL,
    client_secret BYTEA   NULL,
    scopes        TEXT    NOT NULL,
    domains       TEXT    NOT NULL,
    default_role  TEXT    NULL CHECK (default_role IN ('admin', 'member', 'viewer')),
    groups_claim  TEXT    NOT NULL,
    group_roles   TEXT    NOT NULL,
    only_upstream BOOLEAN NOT NULL,
    enabled       BOOLEAN NOT NULL,
    created_at    BIGINT  NOT NULL,
    updated_at    BIGINT  NOT NULL,
    version       BIGINT  NOT NULL,
    PRIMARY KEY (org_id, id)
);
-- A link to sign in does not name an organization, so the id alone must find the row.
CREATE UNIQUE INDEX oidc_upstreams_id ON oidc_upstreams (id);

-- oidc_identities say which user of an organization an account at a provider belongs to. linked is true
-- if that user linked it while signed in. An identity stays when its user is removed from the
-- organization, so that the provider does not let them in again.
CREATE TABLE oidc_identities (
    org_id     TEXT    NOT NULL,
    issuer     TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    user_id    TEXT    NOT NULL,
    linked     BOOLEAN NOT NULL,
    created_at BIGINT  NOT NULL,
    PRIMARY KEY (org_id, issuer, subject)
);
CREATE INDEX oidc_identities_user ON oidc_identities (user_id, org_id);

-- org_id is the only organization that a session opens: that of the provider with which it began. It is
-- empty if the user signed in here.
ALTER TABLE oidc_sessions ADD COLUMN org_id TEXT NOT NULL DEFAULT '';
CREATE INDEX oidc_sessions_org ON oidc_sessions (org_id);
