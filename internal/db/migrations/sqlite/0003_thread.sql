-- +goose Up

-- user_data is sealed and last, so that a list which leaves it out does not read it; its size is that of the text. facets are the hashes
-- under which thread_facets lists the row, 16 bytes each.
CREATE TABLE threads (
    org_id         TEXT    NOT NULL,
    id             TEXT    NOT NULL,
    project_id     TEXT    NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    deleted        INTEGER NOT NULL,
    deleted_at     INTEGER NULL,
    deleted_by     TEXT    NULL,
    version        INTEGER NOT NULL,
    facets         BLOB    NOT NULL,
    user_data_size INTEGER NOT NULL,
    metadata       TEXT    NULL,
    user_data      BLOB    NULL,
    PRIMARY KEY (org_id, id)
) STRICT;
CREATE INDEX threads_created ON threads (org_id, deleted, created_at, id);
CREATE INDEX threads_updated ON threads (org_id, deleted, updated_at, id);
CREATE INDEX threads_deleted ON threads (deleted_at, org_id, id);

-- What a thread can be found by: its project, and each top-level key of its metadata with its value, in the whole organization and in the
-- project. A facet is the hash of one of these. One table has its threads in the order of creation, the other in that of change: two
-- tables, so that a save writes one of them, and no planner can take one's index for the other's.
CREATE TABLE thread_facets (
    org_id     TEXT    NOT NULL,
    facet      BLOB    NOT NULL,
    deleted    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    thread_id  TEXT    NOT NULL,
    PRIMARY KEY (org_id, facet, deleted, created_at, thread_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE thread_changes (
    org_id     TEXT    NOT NULL,
    facet      BLOB    NOT NULL,
    deleted    INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    thread_id  TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (org_id, facet, deleted, updated_at, thread_id)
) STRICT, WITHOUT ROWID;

-- How many there are, for the whole organization (project_id '') and for each project, spread over slots so that writers do not queue for
-- one row.
CREATE TABLE thread_counts (
    org_id     TEXT    NOT NULL,
    project_id TEXT    NOT NULL,
    what       TEXT    NOT NULL CHECK (what IN ('thread', 'deleted', 'session')),
    slot       INTEGER NOT NULL,
    n          INTEGER NOT NULL,
    PRIMARY KEY (org_id, project_id, what, slot)
) STRICT;

-- Projects that were deleted while they still held more than one transaction should remove; what was made until then goes in batches.
CREATE TABLE thread_leftovers (
    org_id     TEXT    NOT NULL,
    project_id TEXT    NOT NULL,
    until      INTEGER NOT NULL,
    PRIMARY KEY (org_id, project_id)
) STRICT;

-- One run of an agent. The two halves, start and completion, may come in any order: started and completed tell which are there. Without
-- a start the project may not be known yet (''). user_data is sealed.
CREATE TABLE sessions (
    org_id         TEXT    NOT NULL,
    id             TEXT    NOT NULL,
    project_id     TEXT    NOT NULL,
    thread_id      TEXT    NULL,
    deployment_id  TEXT    NULL,
    route_id       TEXT    NOT NULL,
    environment    TEXT    NOT NULL,
    devmode        INTEGER NOT NULL,
    url            TEXT    NOT NULL,
    method         TEXT    NOT NULL,
    trigger        TEXT    NOT NULL,
    started        INTEGER NOT NULL,
    completed      INTEGER NOT NULL,
    started_at     INTEGER NOT NULL,
    completed_at   INTEGER NULL,
    status_code    INTEGER NULL,
    error          TEXT    NULL,
    agent_ids      TEXT    NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    version        INTEGER NOT NULL,
    user_data_size INTEGER NOT NULL,
    metadata       TEXT    NULL,
    user_data      BLOB    NULL,
    PRIMARY KEY (org_id, id)
) STRICT;
CREATE INDEX sessions_newest ON sessions (org_id, started_at, id);
CREATE INDEX sessions_project ON sessions (org_id, project_id, started_at, id);
CREATE INDEX sessions_thread ON sessions (org_id, thread_id, started_at, id);
