package eval

import (
	"context"
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

// columns are where runColumns go, or listedColumns.
func (r *Run) columns() []any {
	return []any{
		&r.ID, &r.SessionID, &r.EvalID, &r.EvalIdentifier, &r.EvalName, &r.AgentIdentifier, &r.OrgID, &r.ProjectID, &r.DeploymentID, &r.SpanID,
		&r.Devmode, &r.Pending, &r.Success, (*int64)(&r.CreatedAt), (*int64)(&r.UpdatedAt), &r.size, &r.Error, (*[]byte)(&r.Result),
	}
}

func scanRun(row db.Row) (r Run, err error) { return r, row.Scan(r.columns()...) }

// given takes an empty text for none.
func given(s string) *string {
	if s == "" {
		return nil
	}
	kept := s // on the heap only if there is one
	return &kept
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

// starting is a run on its way into the database.
type starting struct {
	Run
	done bool
}

// Bytes is about how much it adds to a transaction.
func (*starting) Bytes() int { return 512 }

// Start writes a run down. The same start again changes nothing and gives the run as it is, also when it is completed; another start
// with its id is a Conflict. A project or a run that is not the caller's is Forbidden.
func (s *Store) Start(ctx context.Context, caller *auth.Caller, r Run) (after Run, err error) {
	if caller.Sees(r.ProjectID) {
		st := &starting{Run: r}
		if err := s.starts.Do(ctx, s.DB, st, s.insertRuns); err != nil || st.done {
			return st.Run, err
		}
	}
	// The project is new, or not for this caller, or the run is there already.
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := s.Project(tx, caller, "body.projectId", r.ProjectID); err != nil {
			return err
		}
		st := &starting{Run: r}
		err := s.insertRuns(tx, []*starting{st})
		if after = st.Run; err == nil && !st.done {
			after, err = repeated(tx, caller, r)
		}
		return err
	})
	return after, err
}

// insertRuns writes new runs of projects that are known, and counts them; the others are left undone. Nearly every start is done by that
// one statement, with those of its moment: projects are looked for, and the labels of evals are taken, within it. Of two runs with one id
// the first goes in; the other is left, to be compared with it, or written alone if it is of another organization.
func (s *Store) insertRuns(tx *db.Tx, batch []*starting) error {
	rows := db.NewBulk(db.Text, db.Text, db.Text, db.Text, db.Text, db.Text, db.Text, db.Text, db.Bool, db.Int, db.Int)
	byID, now := make(map[string]*starting, len(batch)), int64(s.now())
	for _, st := range batch {
		st.done = false
		if byID[st.ID] == nil {
			byID[st.ID] = st
			rows.Add(st.OrgID, st.ID, st.ProjectID, st.SessionID, st.EvalID, st.EvalIdentifier, st.DeploymentID, st.SpanID, st.Devmode,
				int64(st.CreatedAt), now)
		}
	}
	counts := tally{}
	_, err := db.CollectBulk(tx, rows, func(row db.Row) (st *starting, err error) {
		var runID string
		var evalName, agent *string
		if err := row.Scan(&runID, &evalName, &agent); err != nil {
			return nil, err
		}
		st = byID[runID]
		st.done, st.EvalName, st.AgentIdentifier = true, evalName, agent
		counts.runs(st.OrgID, st.ProjectID, st.EvalID, agent, 1)
		return st, nil
	}, insertRuns+` CROSS JOIN projects p LEFT JOIN evals e ON e.org_id = p.org_id AND e.id = v.column5
		WHERE p.org_id = v.column1 AND p.id = v.column3
		ON CONFLICT (org_id, id) DO NOTHING RETURNING id, eval_name, agent_identifier`)
	if err != nil {
		return err
	}
	return counts.write(s, tx)
}

const insertRuns = `INSERT INTO eval_runs (org_id, id, project_id, session_id, eval_id, eval_identifier, deployment_id, span_id, devmode,
	pending, success, created_at, updated_at, written_at, size, eval_name, agent_identifier)
	SELECT v.column1, v.column2, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8, v.column9, true, false, v.column10,
		v.column10, v.column11, 0, e.name, e.agent_identifier FROM {v}`

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

// ending is a completion on its way into the database.
type ending struct {
	outcome
	caller *auth.Caller
	after  *Run
}

// Bytes is about how much it adds to a transaction.
func (e *ending) Bytes() int { return 512 + e.size() }

// Complete ends a run. The first outcome stays: the same again gives the run as it is, another is a Conflict. A run that the caller does
// not see, or that was not started, is NotFound.
func (s *Store) Complete(ctx context.Context, caller *auth.Caller, o outcome) (Run, error) {
	e := &ending{outcome: o, caller: caller}
	if err := s.ends.Do(ctx, s.DB, e, completeRuns); err != nil {
		return Run{}, err
	}
	if e.after != nil {
		return *e.after, nil
	}
	there, err := getRun(s.DB.Read(ctx), caller, o.id)
	if err == nil && !there.completedAs(o) {
		err = errs.New(errs.Conflict, "this run was completed with another outcome")
	}
	return there, err
}

// completeRuns ends the runs of a batch that are pending and that their callers see. Of two completions of a run the first is taken.
func completeRuns(tx *db.Tx, batch []*ending) error {
	rows := db.NewBulk(db.Text, db.Text, db.Text, db.Bool, db.Text, db.Text, db.Int, db.Int)
	byID := map[[2]string]*ending{}
	for _, e := range batch {
		id := [2]string{e.caller.OrgID, e.id}
		e.after = nil
		if byID[id] == nil {
			byID[id] = e
			rows.Add(e.caller.OrgID, e.id, e.caller.ProjectID, e.success, e.err, e.result, int64(e.size()), int64(e.at))
		}
	}
	done, err := db.CollectBulk(tx, rows, scanRun, `UPDATE eval_runs SET pending = false, success = v.column4, error = v.column5,
		result = v.column6, size = v.column7, updated_at = CASE WHEN created_at > v.column8 THEN created_at ELSE v.column8 END
		{FROM v} WHERE eval_runs.org_id = v.column1 AND eval_runs.id = v.column2 AND pending AND (v.column3 = '' OR project_id = v.column3)
		RETURNING `+runColumns)
	for i, r := range done {
		byID[[2]string{r.OrgID, r.ID}].after = &done[i]
	}
	return err
}
