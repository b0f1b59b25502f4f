-- Evaluations, their runs, counts of both, and the background work on them.

CREATE TABLE evals (
    org_id           TEXT    NOT NULL,
    id               TEXT    COLLATE "C" NOT NULL,
    project_id       TEXT    NOT NULL,
    agent_identifier TEXT    NOT NULL,
    name             TEXT    NOT NULL,
    description      TEXT    NULL,
    identifier       TEXT    NULL,
    deployment_id    TEXT    NULL,
    release          TEXT    NULL,
    filename         TEXT    NULL,
    devmode          BOOLEAN NOT NULL,
    created_at       BIGINT  NOT NULL,
    updated_at       BIGINT  NOT NULL,
    version          BIGINT  NOT NULL,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX evals_name ON evals (org_id, lower(name) COLLATE "C");
CREATE INDEX evals_project_name ON evals (org_id, project_id, lower(name) COLLATE "C");
CREATE INDEX evals_newest ON evals (org_id, created_at, id);
CREATE INDEX evals_project ON evals (org_id, project_id, created_at, id);
CREATE INDEX evals_agent ON evals (org_id, agent_identifier, created_at, id);
CREATE INDEX evals_project_agent ON evals (org_id, project_id, agent_identifier, created_at, id);

-- eval_runs holds the runs. eval_name and agent_identifier are copied from the eval, so that a filter
-- by agent is one range of an index. created_at is the runtime's time, written_at is the server's.
-- size is that of error and result together. result may span many pages and is the last column. An
-- eval and its runs are of one project, so eval_runs_eval serves the filter by both.
CREATE TABLE eval_runs (
    org_id           TEXT    NOT NULL,
    id               TEXT    COLLATE "C" NOT NULL,
    project_id       TEXT    NOT NULL,
    session_id       TEXT    NOT NULL,
    eval_id          TEXT    NOT NULL,
    eval_identifier  TEXT    NULL,
    eval_name        TEXT    NULL,
    agent_identifier TEXT    NULL,
    deployment_id    TEXT    NULL,
    span_id          TEXT    NULL,
    devmode          BOOLEAN NOT NULL,
    pending          BOOLEAN NOT NULL,
    success          BOOLEAN NOT NULL,
    created_at       BIGINT  NOT NULL,
    updated_at       BIGINT  NOT NULL,
    written_at       BIGINT  NOT NULL,
    version          BIGINT  NOT NULL,
    size             BIGINT  NOT NULL,
    error            TEXT    NULL,
    result           TEXT    NULL,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX eval_runs_newest ON eval_runs (org_id, created_at, id);
CREATE INDEX eval_runs_project ON eval_runs (org_id, project_id, created_at, id);
CREATE INDEX eval_runs_agent ON eval_runs (org_id, agent_identifier, created_at, id);
CREATE INDEX eval_runs_eval ON eval_runs (org_id, eval_id, created_at, id);
CREATE INDEX eval_runs_session ON eval_runs (org_id, session_id, created_at, id);
CREATE INDEX eval_runs_project_agent ON eval_runs (org_id, project_id, agent_identifier, created_at, id);
-- For the series: together with the indexes above it has all that is counted, and most runs are not in
-- it once they have ended.
CREATE INDEX eval_runs_unsuccessful ON eval_runs (org_id, pending, created_at, project_id, eval_id, agent_identifier)
    WHERE NOT success;

-- eval_counts counts the evals ('eval') and runs ('run') of a project, and its runs of an agent
-- ('run by agent') or of an eval ('run by eval'), whose identifier is key. See db.Counters.
CREATE TABLE eval_counts (
    org_id     TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    project_id TEXT    NOT NULL,
    n          BIGINT  NOT NULL,
    PRIMARY KEY (org_id, kind, key, project_id)
) WITHOUT ROWID;

-- eval_relabels lists evals whose runs may not all have their name and agent yet, with the run up to
-- which they do.
CREATE TABLE eval_relabels (
    org_id   TEXT   NOT NULL,
    eval_id  TEXT   NOT NULL,
    due_at   BIGINT NOT NULL,
    after_at BIGINT NOT NULL,
    after_id TEXT   COLLATE "C" NOT NULL,
    PRIMARY KEY (org_id, eval_id)
);
CREATE INDEX eval_relabels_due ON eval_relabels (due_at);

-- eval_purges lists deleted projects whose evals and runs, as far as they were written before
-- deleted_at, are still to be removed.
CREATE TABLE eval_purges (
    org_id     TEXT   NOT NULL,
    project_id TEXT   NOT NULL,
    deleted_at BIGINT NOT NULL,
    due_at     BIGINT NOT NULL,
    PRIMARY KEY (org_id, project_id)
);
CREATE INDEX eval_purges_due ON eval_purges (due_at);
