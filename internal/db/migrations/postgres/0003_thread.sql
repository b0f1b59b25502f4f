-- +goose Up

-- user_data is sealed and last, so that a list which leaves it out does not read it; its size is that of the text. facets are the hashes
-- under which thread_facets lists the row, 16 bytes each.
CREATE TABLE threads (
    org_id         TEXT    NOT NULL,
    id             TEXT COLLATE "C" NOT NULL,
    project_id     TEXT    NOT NULL,
    created_at     BIGINT  NOT NULL,
    updated_at     BIGINT  NOT NULL,
    deleted        BOOLEAN NOT NULL,
    deleted_at     BIGINT  NULL,
    deleted_by     TEXT    NULL,
    version        BIGINT  NOT NULL,
    facets         BYTEA   NOT NULL,
    user_data_size BIGINT  NOT NULL,
    metadata       TEXT    NULL,
    user_data      BYTEA   NULL,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX threads_created ON threads (org_id, deleted, created_at, id);
CREATE INDEX threads_updated ON threads (org_id, deleted, updated_at, id);
CREATE INDEX threads_deleted ON threads (deleted_at, org_id, id);

-- What a thread can be found by: its project, and each top-level key of its metadata with its value, in the whole organization and in the
-- project. A facet is the hash of one of these. One table has its threads in the order of creation, the other in that of change: two
-- tables, so that a save writes one of them, and no planner can take one's index for the other's.
CREATE TABLE thread_facets (
    org_id     TEXT    NOT NULL,
    facet      BYTEA   NOT NULL,
    deleted    BOOLEAN NOT NULL,
    created_at BIGINT  NOT NULL,
    thread_id  TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (org_id, facet, deleted, created_at, thread_id)
);
CREATE TABLE thread_changes (
    org_id     TEXT    NOT NULL,
    facet      BYTEA   NOT NULL,
    deleted    BOOLEAN NOT NULL,
    updated_at BIGINT  NOT NULL,
    thread_id  TEXT COLLATE "C" NOT NULL,
    created_at BIGINT  NOT NULL,
    PRIMARY KEY (org_id, facet, deleted, updated_at, thread_id)
);

-- How many there are, for the whole organization (project_id '') and for each project, spread over slots so that writers do not queue for
-- one row.
CREATE TABLE thread_counts (
    org_id     TEXT    NOT NULL,
    project_id TEXT    NOT NULL,
    what       TEXT    NOT NULL CHECK (what IN ('thread', 'deleted', 'session')),
    slot       BIGINT  NOT NULL,
    n          BIGINT  NOT NULL,
    PRIMARY KEY (org_id, project_id, what, slot)
);

-- Projects that were deleted while they still held more than one transaction should remove; what was made until then goes in batches.
CREATE TABLE thread_leftovers (
    org_id     TEXT    NOT NULL,
    project_id TEXT    NOT NULL,
    until      BIGINT  NOT NULL,
    PRIMARY KEY (org_id, project_id)
);

-- One run of an agent. The two halves, start and completion, may come in any order: started and completed tell which are there. Without
-- a start the project may not be known yet (''). user_data is sealed.
CREATE TABLE sessions (
    org_id         TEXT    NOT NULL,
    id             TEXT COLLATE "C" NOT NULL,
    project_id     TEXT    NOT NULL,
    thread_id      TEXT COLLATE "C" NULL,
    deployment_id  TEXT    NULL,
    route_id       TEXT    NOT NULL,
    environment    TEXT    NOT NULL,
    devmode        BOOLEAN NOT NULL,
    url            TEXT    NOT NULL,
    method         TEXT    NOT NULL,
    trigger        TEXT    NOT NULL,
    started        BOOLEAN NOT NULL,
    completed      BOOLEAN NOT NULL,
    started_at     BIGINT  NOT NULL,
    completed_at   BIGINT  NULL,
    status_code    BIGINT  NULL,
    error          TEXT    NULL,
    agent_ids      TEXT    NOT NULL,
    created_at     BIGINT  NOT NULL,
    updated_at     BIGINT  NOT NULL,
    version        BIGINT  NOT NULL,
    user_data_size BIGINT  NOT NULL,
    metadata       TEXT    NULL,
    user_data      BYTEA   NULL,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX sessions_newest ON sessions (org_id, started_at, id);
CREATE INDEX sessions_project ON sessions (org_id, project_id, started_at, id);
CREATE INDEX sessions_thread ON sessions (org_id, thread_id, started_at, id);
