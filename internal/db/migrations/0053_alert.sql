-- Alerts and the notices that they send.

-- alerts holds the rules. params is JSON, and target sealed JSON. state and since say what the rule has found;
-- clear_since is since when it finds nothing while it is firing. summary says what it found at the last notice, which was
-- at notified_at. notice is that notice as JSON, with how its sending went, and notice_id its id.
CREATE TABLE alerts (
    org_id       TEXT    COLLATE "C" NOT NULL,
    id           TEXT    COLLATE "C" NOT NULL,
    name         TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    params       TEXT    NOT NULL,
    target       BYTEA   NOT NULL,
    repeat_hours BIGINT  NOT NULL,
    disabled     BOOLEAN NOT NULL,
    state        TEXT    NOT NULL CHECK (state IN ('ok', 'firing')),
    since        BIGINT  NOT NULL,
    clear_since  BIGINT  NULL,
    summary      TEXT    NOT NULL,
    notified_at  BIGINT  NULL,
    notice_id    TEXT    COLLATE "C" NULL,
    notice       TEXT    NULL,
    created_by   TEXT    NOT NULL,
    created_at   BIGINT  NOT NULL,
    updated_at   BIGINT  NOT NULL,
    version      BIGINT  NOT NULL,
    PRIMARY KEY (org_id, id)
);

-- alert_notices holds the notices that wait to be sent. body is JSON.
CREATE TABLE alert_notices (
    org_id     TEXT   COLLATE "C" NOT NULL,
    id         TEXT   COLLATE "C" NOT NULL,
    alert_id   TEXT   COLLATE "C" NOT NULL,
    body       TEXT   NOT NULL,
    attempts   BIGINT NOT NULL,
    next_at    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX alert_notices_next ON alert_notices (next_at);
CREATE INDEX alert_notices_alert ON alert_notices (org_id, alert_id);

-- disk_free is how much of the volume with the process's data directory is free, in percent. It is null for processes of
-- earlier versions.
ALTER TABLE processes ADD COLUMN disk_free BIGINT NULL;

-- Alerts are mailed, too. SQLite changes a CHECK only with the table.
ALTER TABLE mails DROP CONSTRAINT mails_kind_check; -- postgres
ALTER TABLE mails ADD CONSTRAINT mails_kind_check CHECK (kind IN ('invitation', 'reset', 'email', 'notice', 'alert')); -- postgres
DROP INDEX mails_next; -- sqlite
ALTER TABLE mails RENAME TO earlier_mails; -- sqlite
CREATE TABLE mails ( -- sqlite
    id         TEXT   NOT NULL PRIMARY KEY, -- sqlite
    kind       TEXT   NOT NULL CHECK (kind IN ('invitation', 'reset', 'email', 'notice', 'alert')), -- sqlite
    body       BYTEA  NOT NULL, -- sqlite
    attempts   BIGINT NOT NULL, -- sqlite
    next_at    BIGINT NOT NULL, -- sqlite
    last_error TEXT   NOT NULL, -- sqlite
    created_at BIGINT NOT NULL -- sqlite
); -- sqlite
INSERT INTO mails (id, kind, body, attempts, next_at, last_error, created_at) -- sqlite
SELECT id, kind, body, attempts, next_at, last_error, created_at FROM earlier_mails; -- sqlite
DROP TABLE earlier_mails; -- sqlite
CREATE INDEX mails_next ON mails (next_at); -- sqlite
