-- Invitations become rows of their own: a user is created, and belongs to the organization, when the
-- invitation is accepted.

ALTER TABLE invitations RENAME TO earlier_invitations;
ALTER INDEX invitations_pkey RENAME TO earlier_invitations_pkey; -- postgres

-- invitations belong to one organization, one address and one role. token_hash is null when the role
-- was changed since the last link was issued. email is in lower case.
CREATE TABLE invitations (
    org_id     TEXT   NOT NULL,
    id         TEXT   NOT NULL,
    email      TEXT   NOT NULL,
    first_name TEXT   NULL,
    last_name  TEXT   NULL,
    role       TEXT   NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
    token_hash BYTEA  NULL,
    created_by TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    version    BIGINT NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX invitations_email ON invitations (org_id, email);
-- A link does not name an organization, so the token alone must find the row.
CREATE UNIQUE INDEX invitations_token ON invitations (token_hash);
CREATE INDEX invitations_expires ON invitations (expires_at);

-- The links of members who have never signed in go on working. A user with a password is a member
-- already, and so is one who has an API key.
INSERT INTO invitations (org_id, id, email, first_name, last_name, role, token_hash, created_by,
    created_at, expires_at, version)
SELECT m.org_id, 'inv_' || substr(u.id, 5, 10) || lower(hex(randomblob(8))), u.email, u.first_name, -- sqlite
SELECT m.org_id, 'inv_' || substr(u.id, 5, 10) || substr(md5(random()::text), 1, 16), u.email, u.first_name, -- postgres
    u.last_name, m.role, i.token_hash, i.created_by, i.created_at, i.expires_at, 1
FROM earlier_invitations i
JOIN members m ON m.org_id = i.org_id AND m.user_id = i.user_id
JOIN users u ON u.id = i.user_id
WHERE i.used_at IS NULL AND u.password_hash IS NULL AND u.email IS NOT NULL AND NOT m.disabled
    AND NOT EXISTS (SELECT 1 FROM api_keys k WHERE k.user_id = u.id)
ORDER BY i.created_at DESC
ON CONFLICT (org_id, email) DO NOTHING;

DELETE FROM members WHERE EXISTS (SELECT 1 FROM invitations i JOIN users u ON u.email = i.email
    WHERE i.org_id = members.org_id AND u.id = members.user_id);

-- A user whom a client allows stays, and gets the password and the membership with the invitation.
DELETE FROM users WHERE id IN (SELECT user_id FROM earlier_invitations) AND password_hash IS NULL
    AND NOT EXISTS (SELECT 1 FROM members m WHERE m.user_id = users.id)
    AND NOT EXISTS (SELECT 1 FROM api_keys k WHERE k.user_id = users.id)
    AND NOT EXISTS (SELECT 1 FROM oidc_clients c WHERE c.allowed_user_ids LIKE '%"' || users.id || '"%');

DROP TABLE earlier_invitations;

-- last_seen_at is when the user last used the organization, within a minute.
ALTER TABLE members ADD COLUMN last_seen_at BIGINT NULL;

-- password_resets holds the link with which a user can set a new password, at most one for each user:
-- a new link replaces the old one, and a used one is deleted. made_for is a hash of the user's address,
-- password and memberships when the link was issued: it is void when one of them has changed. Links
-- last an hour, and those of before are dropped.
DROP TABLE password_resets;
CREATE TABLE password_resets (
    user_id    TEXT   NOT NULL PRIMARY KEY,
    token_hash BYTEA  NOT NULL,
    made_for   BYTEA  NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX password_resets_token ON password_resets (token_hash);
CREATE INDEX password_resets_expires ON password_resets (expires_at);
