-- +goose Up

-- The audit log: who did what to which resource. Each row is written in the transaction of the
-- change that it describes.
CREATE TABLE audit (
    org_id      TEXT   NOT NULL,
    id          TEXT   NOT NULL,
    at          BIGINT NOT NULL,
    user_id     TEXT   NULL,
    key_id      TEXT   NULL,
    client_id   TEXT   NULL,
    action      TEXT   NOT NULL,
    target      TEXT   NOT NULL,
    remote_addr TEXT   NOT NULL,
    request_id  TEXT   NOT NULL,
    PRIMARY KEY (org_id, id)
);
