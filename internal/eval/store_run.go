package eval

import (
	"context"
	"encoding/json"
	"errors"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
)

const (
	runColumns = `id, session_id, eval_id, eval_identifier, eval_name, agent_identifier, org_id, project_id, deployment_id, span_id, devmode,
	pending, success, created_at, updated_at, size, error, result`
	// listedColumns leave out what is too large for a list, before it is read from its pages.
	listedColumns = `id, session_id, eval_id, eval_identifier, eval_name, agent_identifier, org_id, project_id, deployment_id, span_id,
	devmode, pending, success, created_at, updated_at, size, CASE WHEN size > 65536 THEN substr(error, 1, 1000) ELSE error END,
	CASE WHEN size > 65536 THEN NULL ELSE result END`
)

func scanRun(row db.Row) (r Run, err error) {
	var result *string
	err = row.Scan(&r.ID, &r.SessionID, &r.EvalID, &r.EvalIdentifier, &r.EvalName, &r.AgentIdentifier, &r.OrgID, &r.ProjectID, &r.DeploymentID,
		&r.SpanID, &r.Devmode, &r.Pending, &r.Success, &r.CreatedAt, &r.UpdatedAt, &r.size, &r.Error, &result)
	if result != nil {
		r.Result = json.RawMessage(*result)
	}
	return r, err
}

// scanListed is scanRun for listedColumns.
func scanListed(row db.Row) (Run, error) {
	r, err := scanRun(row)
	r.Truncated = r.size > maxListed
	return r, err
}

// Run gives a run that the caller sees, else NotFound.
func (s *Store) Run(ctx context.Context, caller *auth.Caller, runID string) (Run, error) {
	return getRun(s.DB.Read(ctx), caller, runID)
}

func getRun(q db.Querier, caller *auth.Caller, runID string) (Run, error) {
	r, err := scanRun(q.Row(`SELECT `+runColumns+` FROM eval_runs WHERE org_id = $1 AND id = $2`, caller.OrgID, runID))
	if errors.Is(err, db.ErrNoRows) || err == nil && !caller.Sees(r.ProjectID) {
		return Run{}, errs.Missing("evaluation run", runID)
	}
	return r, err
}

// Start writes a run down. The same start again changes nothing and gives the run as it is, also when it is completed; another start
// with its id is a Conflict. A project or a run that is not the caller's is Forbidden.
func (s *Store) Start(ctx context.Context, caller *auth.Caller, r Run) (after Run, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		after = r
		err := db.ErrNoRows
		if caller.Sees(r.ProjectID) {
			err = s.insertRun(tx, &after)
		}
		if !errors.Is(err, db.ErrNoRows) {
			return err
		}
		// The project is new, or not for this caller, or the run is there already.
		if err := s.Project(tx, caller, "body.projectId", r.ProjectID); err != nil {
			return err
		}
		if err = s.insertRun(tx, &after); errors.Is(err, db.ErrNoRows) {
			after, err = repeated(tx, caller, r)
		}
		return err
	})
	return after, err
}

// insertRun writes a new run of a project that is known, and counts it; otherwise it answers ErrNoRows. Nearly every start is that one
// statement: the project is looked for, and the eval's labels are taken, within it.
func (s *Store) insertRun(tx *db.Tx, r *Run) error {
	err := tx.Row(`INSERT INTO eval_runs (org_id, id, project_id, session_id, eval_id, eval_identifier, deployment_id, span_id, devmode,
		pending, success, created_at, updated_at, written_at, size, eval_name, agent_identifier)
		SELECT p.org_id, CAST($2 AS TEXT), p.id, CAST($4 AS TEXT), CAST($5 AS TEXT), CAST($6 AS TEXT), CAST($7 AS TEXT), CAST($8 AS TEXT),
			CAST($9 AS BOOLEAN), CAST($10 AS BOOLEAN), CAST($11 AS BOOLEAN), CAST($12 AS BIGINT), CAST($12 AS BIGINT), CAST($13 AS BIGINT), 0,
			e.name, e.agent_identifier
		FROM projects p LEFT JOIN evals e ON e.org_id = p.org_id AND e.id = $5 WHERE p.org_id = $1 AND p.id = $3
		ON CONFLICT (org_id, id) DO NOTHING RETURNING eval_name, agent_identifier`,
		r.OrgID, r.ID, r.ProjectID, r.SessionID, r.EvalID, r.EvalIdentifier, r.DeploymentID, r.SpanID, r.Devmode,
		true, false, r.CreatedAt, s.now()).Scan(&r.EvalName, &r.AgentIdentifier)
	if err != nil {
		return err
	}
	return s.count(tx, r.OrgID, runs, r.ProjectID, 1)
}

// repeated gives the run that is there already, if it was started in the same way.
func repeated(tx *db.Tx, caller *auth.Caller, r Run) (Run, error) {
	there, err := getRun(tx, caller, r.ID)
	if errs.KindOf(err) == errs.NotFound {
		return there, errs.New(errs.Forbidden, "a run with this id belongs to another project than this key")
	}
	if err == nil && !there.sameStart(r) {
		return there, errs.New(errs.Conflict, "a run with this id was started with other values")
	}
	return there, err
}

// Complete ends a run. The first outcome stays: the same again gives the run as it is, another is a Conflict. A run that the caller does
// not see, or that was not started, is NotFound.
func (s *Store) Complete(ctx context.Context, caller *auth.Caller, o outcome) (after Run, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		var err error
		after, err = scanRun(tx.Row(`UPDATE eval_runs SET pending = $3, success = $4, error = $5, result = $6, size = $7,
			updated_at = CASE WHEN created_at > $8 THEN created_at ELSE $8 END
			WHERE org_id = $1 AND id = $2 AND pending = $9 AND ($10 = '' OR project_id = $10) RETURNING `+runColumns,
			caller.OrgID, o.id, false, o.success, o.err, o.result, o.size(), o.at, true, caller.ProjectID))
		if !errors.Is(err, db.ErrNoRows) {
			return err
		}
		if after, err = getRun(tx, caller, o.id); err != nil {
			return err
		}
		if !after.completedAs(o) {
			return errs.New(errs.Conflict, "this run was completed with another outcome")
		}
		return nil
	})
	return after, err
}
