-- passed and score come from the result, and are null where it has none. judged is false for results that a process of an
-- earlier version has stored: a worker reads these.
ALTER TABLE eval_runs ADD COLUMN passed BOOLEAN NULL;
ALTER TABLE eval_runs ADD COLUMN score DOUBLE PRECISION NULL;
ALTER TABLE eval_runs ADD COLUMN judged BOOLEAN NOT NULL DEFAULT false;
CREATE INDEX eval_runs_unjudged ON eval_runs (org_id, id) WHERE NOT judged AND result IS NOT NULL;

-- Runs that failed are listed and counted from an index alone, so it has all columns of the conditions. Runs by score
-- are found in the order of the list.
CREATE INDEX eval_runs_failed ON eval_runs (org_id, pending, created_at, id, project_id, eval_id, agent_identifier, passed, success)
    WHERE pending = false AND COALESCE(passed, success) = false;
CREATE STATISTICS eval_runs_verdict ON (COALESCE(passed, success)) FROM eval_runs; -- postgres
CREATE INDEX eval_runs_scored ON eval_runs (org_id, created_at, id, score) WHERE score IS NOT NULL;

-- The evals and agents with the most runs in a period are found without reading the runs.
DROP INDEX eval_runs_newest;
CREATE INDEX eval_runs_newest ON eval_runs (org_id, created_at, id, project_id, eval_id, agent_identifier);
