-- verification says how a webhook's requests prove where they come from, as JSON with masks in place of secrets, and
-- verification_secrets holds the sealed secrets. Both are null if requests are not verified.
ALTER TABLE webhooks ADD COLUMN verification TEXT NULL;
ALTER TABLE webhooks ADD COLUMN verification_secrets BYTEA NULL;

-- webhook_rejected holds the requests that could not be verified, the newest of each webhook for a day. key is the ULID of
-- the webhook and one of the request's own.
CREATE TABLE webhook_rejected (
    key          TEXT    COLLATE "C" NOT NULL PRIMARY KEY,
    date         BIGINT  NOT NULL,
    reason       TEXT    NOT NULL,
    method       TEXT    NOT NULL,
    query        TEXT    NOT NULL,
    remote_addr  TEXT    NOT NULL,
    content_type TEXT    NOT NULL,
    size         BIGINT  NOT NULL,
    headers      TEXT    NOT NULL,
    truncated    BOOLEAN NOT NULL,
    body         BYTEA   NOT NULL
);
