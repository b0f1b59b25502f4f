-- +goose Up

-- API keys. A request presents only the key, so its hash alone must find the row.
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
