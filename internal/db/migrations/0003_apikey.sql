-- API keys. A request presents only the key, so its hash alone must find the row. client_id is the
-- OAuth client with whose access token the key was created: it is deleted with the consent of its user
-- to that client. scopes is a JSON array, or null if the key has all rights of its user.
CREATE TABLE api_keys (
    org_id       TEXT   NOT NULL,
    id           TEXT   NOT NULL,
    hash         BYTEA  NOT NULL,
    name         TEXT   NOT NULL,
    type         TEXT   NOT NULL CHECK (type IN ('root', 'user', 'project')),
    project_id   TEXT   NULL,
    user_id      TEXT   NOT NULL,
    client_id    TEXT   NULL,
    scopes       TEXT   NULL,
    expires_at   BIGINT NULL,
    last_used_at BIGINT NULL,
    created_at   BIGINT NOT NULL,
    version      BIGINT NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE UNIQUE INDEX api_keys_hash ON api_keys (hash);
CREATE INDEX api_keys_newest ON api_keys (org_id, created_at, id);
CREATE INDEX api_keys_user ON api_keys (org_id, user_id, created_at, id);
CREATE INDEX api_keys_name ON api_keys (org_id, lower(name) COLLATE "C");
CREATE INDEX api_keys_user_name ON api_keys (org_id, user_id, lower(name) COLLATE "C");
CREATE INDEX api_keys_client ON api_keys (org_id, client_id, user_id) WHERE client_id IS NOT NULL;
