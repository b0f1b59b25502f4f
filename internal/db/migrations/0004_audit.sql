-- The audit log: who did what to which resource. Each row is written in the transaction of the
-- change that it describes. thing is the part of action before the first dot. An id sorts by time, so
-- that each index has the entries of one value in the order of the log.
CREATE TABLE audit (
    org_id      TEXT   NOT NULL,
    id          TEXT   NOT NULL,
    at          BIGINT NOT NULL,
    user_id     TEXT   NULL,
    key_id      TEXT   NULL,
    client_id   TEXT   NULL,
    thing       TEXT   NOT NULL,
    action      TEXT   NOT NULL,
    target      TEXT   NOT NULL,
    remote_addr TEXT   NOT NULL,
    request_id  TEXT   NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX audit_thing ON audit (org_id, thing, id);
CREATE INDEX audit_action ON audit (org_id, action, id);
CREATE INDEX audit_target ON audit (org_id, target, id);
CREATE INDEX audit_user ON audit (org_id, user_id, id) WHERE user_id IS NOT NULL;
CREATE INDEX audit_key ON audit (org_id, key_id, id) WHERE key_id IS NOT NULL;
CREATE INDEX audit_client ON audit (org_id, client_id, id) WHERE client_id IS NOT NULL;
