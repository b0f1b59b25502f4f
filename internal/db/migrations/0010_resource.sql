-- Databases and key-value stores. Buckets are in the migration before.

-- resources holds the databases and key-value stores. password is sealed, password_hash is its
-- SHA-256. node is the data directory that has the files, or '' if the engine is another server.
-- While state is not active, worker is changing the resource until the time in until, and then any
-- replica may continue.
CREATE TABLE resources (
    id            TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    type          TEXT   NOT NULL CHECK (type IN ('db', 'kv')),
    org_id        TEXT   COLLATE "C" NOT NULL,
    region        TEXT   COLLATE "C" NOT NULL,
    name          TEXT   COLLATE "C" NOT NULL,
    description   TEXT   NULL,
    engine        TEXT   NOT NULL,
    node          TEXT   COLLATE "C" NOT NULL,
    state         TEXT   NOT NULL CHECK (state IN ('creating', 'active', 'rotating', 'deleting')),
    worker        TEXT   NULL,
    until         BIGINT NULL,
    password      BYTEA  NOT NULL,
    password_hash BYTEA  NOT NULL,
    created_by    TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    version       BIGINT NOT NULL
);
CREATE UNIQUE INDEX resources_name ON resources (org_id, region, type, name);
CREATE UNIQUE INDEX resources_password ON resources (password_hash);
CREATE INDEX resources_lower_name ON resources (org_id, type, lower(name) COLLATE "C");
CREATE INDEX resources_node ON resources (node, type);
CREATE INDEX resources_until ON resources (until) WHERE state <> 'active';
