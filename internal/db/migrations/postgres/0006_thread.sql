-- +goose Up

-- Agent threads and sessions, and the tables that list and count threads by project and metadata.

-- threads holds the threads. user_data is sealed, and the last column so that a list without it does
-- not read it; user_data_size is the size of the plain text. facets holds the 16-byte hashes under
-- which thread_facets lists the thread.
CREATE TABLE threads (
    org_id         TEXT    NOT NULL,
    id             TEXT    COLLATE "C" NOT NULL,
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
CREATE INDEX threads_deleted ON threads (deleted_at, org_id, id) WHERE deleted_at IS NOT NULL;

-- thread_facets lists threads by what they are filtered by. A facet is the hash of a project, or of
-- a top-level metadata key with its value, within the organization or within a project. place is the
-- facet (16 bytes), whether the thread is deleted (1 byte), and its creation time in microseconds
-- (8 bytes, big endian), so that a list is one range of the index. mates holds 8 bytes of each other
-- facet of the thread, for lists with several filters; NULL means that it is not known.
CREATE TABLE thread_facets (
    org_id    TEXT  NOT NULL,
    place     BYTEA NOT NULL,
    thread_id TEXT  COLLATE "C" NOT NULL,
    mates     BYTEA NULL,
    PRIMARY KEY (org_id, place, thread_id) INCLUDE (mates)
);

-- thread_changes is thread_facets with the time of the last change in place of the creation time. It
-- is a table of its own so that a save rewrites only this one.
CREATE TABLE thread_changes (
    org_id    TEXT  NOT NULL,
    place     BYTEA NOT NULL,
    thread_id TEXT  COLLATE "C" NOT NULL,
    mates     BYTEA NULL,
    PRIMARY KEY (org_id, place, thread_id) INCLUDE (mates)
);

-- thread_sizes counts the threads of a facet: the sum over the slots. A facet without threads has
-- no rows.
CREATE TABLE thread_sizes (
    org_id  TEXT    NOT NULL,
    facet   BYTEA   NOT NULL,
    deleted BOOLEAN NOT NULL,
    slot    BIGINT  NOT NULL,
    n       BIGINT  NOT NULL,
    PRIMARY KEY (org_id, facet, deleted, slot)
);

-- thread_counts counts threads and sessions per organization (project_id '') and per project: the
-- sum over the slots.
CREATE TABLE thread_counts (
    org_id     TEXT   NOT NULL,
    project_id TEXT   NOT NULL,
    what       TEXT   NOT NULL CHECK (what IN ('thread', 'deleted', 'session')),
    slot       BIGINT NOT NULL,
    n          BIGINT NOT NULL,
    PRIMARY KEY (org_id, project_id, what, slot)
);

-- thread_leftovers lists deleted projects whose threads and sessions, as far as they were made
-- before until, are still to be removed in batches.
CREATE TABLE thread_leftovers (
    org_id     TEXT   NOT NULL,
    project_id TEXT   NOT NULL,
    until      BIGINT NOT NULL,
    PRIMARY KEY (org_id, project_id)
);

-- sessions holds the runs of agents. Start and completion may arrive in any order; started and
-- completed report which of them did. project_id is '' while it is not known. user_data is sealed.
CREATE TABLE sessions (
    org_id         TEXT    NOT NULL,
    id             TEXT    COLLATE "C" NOT NULL,
    project_id     TEXT    NOT NULL,
    thread_id      TEXT    COLLATE "C" NULL,
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
