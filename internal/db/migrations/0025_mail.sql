-- Mail that waits to be sent, and proofs of mail addresses.

-- mails are requests for mail: a row is deleted when its mail was sent. body says what the mail is about,
-- sealed; the mail itself, and the token of its link, is made when it is sent.
CREATE TABLE mails (
    id         TEXT   NOT NULL PRIMARY KEY,
    kind       TEXT   NOT NULL CHECK (kind IN ('invitation', 'reset', 'email', 'notice')),
    body       BYTEA  NOT NULL,
    attempts   BIGINT NOT NULL,
    next_at    BIGINT NOT NULL,
    last_error TEXT   NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX mails_next ON mails (next_at);

-- mail_quotas counts the invitations that an organization has had mailed on a day (since 1970).
CREATE TABLE mail_quotas (
    org_id TEXT   NOT NULL PRIMARY KEY,
    day    BIGINT NOT NULL,
    mails  BIGINT NOT NULL
);

-- email_verified is whether the user has used a link that was mailed to the address, and shown to nobody
-- else.
ALTER TABLE users ADD COLUMN email_verified BOOLEAN NOT NULL DEFAULT FALSE;

-- mailed_hash is that of the token of the link that was mailed. It is another link than the one that who
-- invites can see, so that its use proves the address.
ALTER TABLE invitations ADD COLUMN mailed_hash BYTEA NULL;
CREATE UNIQUE INDEX invitations_mailed ON invitations (mailed_hash);

-- mailed is whether nobody but the user has got the link.
ALTER TABLE password_resets ADD COLUMN mailed BOOLEAN NOT NULL DEFAULT FALSE;

-- email_changes holds the new address that a user has asked for, at most one for each user, until a link
-- that is mailed to it was used. token_hash is null until then. made_for is as in password_resets. email
-- is in lower case.
CREATE TABLE email_changes (
    user_id    TEXT   NOT NULL PRIMARY KEY,
    email      TEXT   NOT NULL,
    token_hash BYTEA  NULL,
    made_for   BYTEA  NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX email_changes_token ON email_changes (token_hash);
CREATE INDEX email_changes_expires ON email_changes (expires_at);
