-- +goose Up

-- How many evals and runs a project has, and how many of its runs are of an agent or an eval (key): the sum over the slots, which keep
-- concurrent writers apart. A count of nothing has no rows.
DROP TABLE eval_counts;
CREATE TABLE eval_counts (
    org_id     TEXT    NOT NULL,
    what       TEXT    NOT NULL CHECK (what IN ('eval', 'run', 'run of agent', 'run of eval')),
    key        TEXT    NOT NULL,
    project_id TEXT    NOT NULL,
    slot       INTEGER NOT NULL,
    n          INTEGER NOT NULL,
    PRIMARY KEY (org_id, what, key, project_id, slot)
) STRICT, WITHOUT ROWID;
INSERT INTO eval_counts (org_id, what, key, project_id, slot, n)
    SELECT org_id, 'eval', '', project_id, 0, count(*) FROM evals GROUP BY org_id, project_id;
INSERT INTO eval_counts (org_id, what, key, project_id, slot, n)
    SELECT org_id, 'run', '', project_id, 0, count(*) FROM eval_runs GROUP BY org_id, project_id;
INSERT INTO eval_counts (org_id, what, key, project_id, slot, n)
    SELECT org_id, 'run of agent', agent_identifier, project_id, 0, count(*) FROM eval_runs
    WHERE agent_identifier IS NOT NULL GROUP BY org_id, project_id, agent_identifier;
INSERT INTO eval_counts (org_id, what, key, project_id, slot, n)
    SELECT org_id, 'run of eval', eval_id, project_id, 0, count(*) FROM eval_runs GROUP BY org_id, project_id, eval_id;

-- An eval is of one project, and so are its runs: eval_runs_eval serves both.
DROP INDEX eval_runs_project_eval;
