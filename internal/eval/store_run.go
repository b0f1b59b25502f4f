package eval

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

const runFields = `id, session_id, eval_id, eval_identifier, eval_name, agent_identifier, org_id, project_id,
	deployment_id, span_id, devmode, pending, success, passed, score, created_at, updated_at, version`

const runColumns = runFields + `, error, result`

// listedRunColumns has the columns for a list. Large results stay in the database, and so do large
// errors beyond their beginning; one character more than we list shows that an error was cut.
var listedRunColumns = fmt.Sprintf(runFields+`, size, result IS NOT NULL,
	CASE WHEN size > %d THEN substr(error, 1, %d) ELSE error END,
	CASE WHEN size > %d THEN NULL ELSE result END`, maxListed, maxListedError+1, maxListed)

func (r *Run) fields() []any {
	return []any{
		&r.ID, &r.SessionID, &r.EvalID, &r.EvalIdentifier, &r.EvalName, &r.AgentIdentifier, &r.OrgID, &r.ProjectID,
		&r.DeploymentID, &r.SpanID, &r.Devmode, &r.Pending, &r.Success, &r.Passed, &r.Score, &r.CreatedAt, &r.UpdatedAt, &r.version,
	}
}

func scanRun(row db.Row) (r Run, err error) {
	return r, row.Scan(append(r.fields(), &r.Error, (*[]byte)(&r.Result))...)
}

// listedRunScanner returns a function that reads a page's rows. Once errors and results fill
// page.MaxBytes, it shortens the runs that follow.
func listedRunScanner() func(db.Row) (Run, error) {
	var budget page.Budget
	var r Run
	var size int
	var hasResult bool
	columns := append(r.fields(), &size, &hasResult, &r.Error, (*[]byte)(&r.Result))
	return func(row db.Row) (Run, error) {
		if err := row.Scan(columns...); err != nil {
			return Run{}, err
		}
		listed := r
		if size > maxListed || size > 0 && !budget.Take(size) {
			listed.shorten(hasResult)
		}
		return listed, nil
	}
}

// Run returns a run with all of its fields. It returns NotFound if there is none or if the caller
// does not see it.
func (s *Store) Run(ctx context.Context, caller *auth.Caller, runID string) (Run, error) {
	return getRun(s.DB.Read(ctx), caller, runID)
}

func getRun(q db.Querier, caller *auth.Caller, runID string) (Run, error) {
	r, err := scanRun(q.Row(`SELECT `+runColumns+` FROM eval_runs WHERE org_id = $1 AND id = $2`, caller.OrgID, runID))
	if errors.Is(err, db.ErrNoRows) {
		return Run{}, errs.Missing("evaluation run", runID)
	}
	if err != nil {
		return Run{}, fmt.Errorf("get run: %w", err)
	}
	if !caller.Sees(r.ProjectID) {
		return Run{}, errs.Missing("evaluation run", runID)
	}
	return r, nil
}

// queuedStart is a run that waits to be inserted in a batch.
type queuedStart struct {
	Run
	inserted bool
}

// Bytes estimates how much the start adds to a transaction.
func (*queuedStart) Bytes() int { return 512 }

// Org returns the run's organization, for db.Gather.
func (s *queuedStart) Org() string { return s.OrgID }

// Start inserts a run. A repeated start changes nothing and returns the run as it is, which may be
// completed. Start returns Conflict if a run with the same id was started with other values, and
// Forbidden for a project or a run that is not the caller's.
func (s *Store) Start(ctx context.Context, caller *auth.Caller, r Run) (Run, error) {
	if caller.Sees(r.ProjectID) {
		queued := &queuedStart{Run: r}
		if err := s.starts.Do(ctx, s.DB, queued, s.insertRuns); err != nil {
			return Run{}, fmt.Errorf("start runs: %w", err)
		}
		if queued.inserted {
			return queued.Run, nil
		}
	}
	// The project does not exist or is not the caller's, or there is a run with this id.
	var stored Run
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := s.Accounts.EnsureProject(tx, caller, "body.projectId", r.ProjectID); err != nil {
			return err
		}
		queued := &queuedStart{Run: r}
		if err := s.insertRuns(tx, []*queuedStart{queued}); err != nil {
			return err
		}
		stored = queued.Run
		if queued.inserted {
			return nil
		}
		var err error
		stored, err = getStarted(tx, caller, r)
		return err
	})
	return stored, err
}

// insertRuns inserts and counts new runs in existing projects, and skips the others. One statement
// looks up the projects, copies the labels and inserts. If two runs have the same id, it inserts the
// first, and Start writes the other alone.
func (s *Store) insertRuns(tx *db.Tx, batch []*queuedStart) error {
	type newRun struct {
		Run
		WrittenAt stamp.Time
	}
	rows := make(db.Bulk[newRun], 0, len(batch))
	byID := make(map[string]*queuedStart, len(batch))
	now := s.now()
	for _, q := range batch {
		q.inserted = false
		if byID[q.ID] == nil {
			byID[q.ID] = q
			rows = append(rows, newRun{q.Run, now})
		}
	}
	inserted, err := db.CollectBulk(tx, rows, scanRunLabels, insertRuns)
	if err != nil {
		return fmt.Errorf("insert runs: %w", err)
	}
	for _, labels := range inserted {
		q := byID[labels.id]
		q.inserted = true
		q.EvalName = labels.name
		q.AgentIdentifier = labels.agent
		counted := countedRun{orgID: q.OrgID, projectID: q.ProjectID, evalID: q.EvalID, agent: labels.agent}
		if err := addRuns(tx, counted, 1); err != nil {
			return err
		}
	}
	return nil
}

const insertRuns = `INSERT INTO eval_runs (org_id, id, project_id, session_id, eval_id, eval_identifier, deployment_id,
		span_id, devmode, pending, success, created_at, updated_at, written_at, version, size, eval_name, agent_identifier)
	SELECT v.org_id, v.id, v.project_id, v.session_id, v.eval_id, v.eval_identifier, v.deployment_id,
		v.span_id, v.devmode, true, false, v.created_at, v.created_at, v.written_at, 1, 0, e.name, e.agent_identifier
	FROM {v} CROSS JOIN project_names p LEFT JOIN evals e ON e.org_id = p.org_id AND e.id = v.eval_id
	WHERE p.org_id = v.org_id AND p.id = v.project_id
	ON CONFLICT (org_id, id) DO NOTHING RETURNING id, created_at, eval_name, agent_identifier`

// getStarted returns the run with the id of r if it was started with the same values.
func getStarted(tx *db.Tx, caller *auth.Caller, r Run) (Run, error) {
	stored, err := getRun(tx, caller, r.ID)
	if errs.KindOf(err) == errs.NotFound {
		return Run{}, errs.New(errs.Forbidden, "a run with this id belongs to another project than this key")
	}
	if err != nil {
		return Run{}, err
	}
	if !stored.sameStart(r) {
		return Run{}, errs.New(errs.Conflict, "a run with this id was started with other values")
	}
	return stored, nil
}

// queuedCompletion is a completion that waits to be written in a batch, and then the run that it has
// completed, if any.
type queuedCompletion struct {
	outcome
	caller    *auth.Caller
	completed *Run
}

// Bytes estimates how much the completion adds to a transaction.
func (c *queuedCompletion) Bytes() int { return 512 + c.size() }

// Org returns the caller's organization, for db.Gather.
func (c *queuedCompletion) Org() string { return c.caller.OrgID }

// Complete completes a run. The first outcome stays: an equal one returns the run as it is, another
// one is a Conflict. Complete returns NotFound if the run was not started or if the caller does not
// see it.
func (s *Store) Complete(ctx context.Context, caller *auth.Caller, o outcome) (Run, error) {
	queued := &queuedCompletion{outcome: o, caller: caller}
	if err := s.completions.Do(ctx, s.DB, queued, completeRuns); err != nil {
		return Run{}, fmt.Errorf("complete runs: %w", err)
	}
	if queued.completed != nil {
		return *queued.completed, nil
	}
	stored, err := getRun(s.DB.Read(ctx), caller, o.id)
	if err != nil {
		return Run{}, err
	}
	err = s.Decoding.Do(ctx, caller.OrgID, stored.Result, func() error {
		if !stored.completedAs(o) {
			return errs.New(errs.Conflict, "this run was completed with another outcome")
		}
		return nil
	})
	if err != nil {
		return Run{}, err
	}
	return stored, nil
}

// completeRuns completes those pending runs that their callers see. If a run is completed twice in a
// batch, the first completion wins.
func completeRuns(tx *db.Tx, batch []*queuedCompletion) error {
	type key struct{ orgID, id string }
	type completion struct {
		OrgID, ID, ProjectID string
		Success              bool
		Passed               *bool
		Score                *float64
		Error, Result        *string
		Size                 int
		At                   stamp.Time
	}
	rows := make(db.Bulk[completion], 0, len(batch))
	byKey := map[key]*queuedCompletion{}
	for _, c := range batch {
		c.completed = nil
		k := key{c.caller.OrgID, c.id}
		if byKey[k] == nil {
			byKey[k] = c
			rows = append(rows, completion{
				OrgID: k.orgID, ID: k.id, ProjectID: c.caller.ProjectID,
				Success: c.err == nil && !c.verdict.broken, Passed: c.verdict.passed, Score: c.verdict.score,
				Error: c.err, Result: c.result, Size: c.size(), At: c.at,
			})
		}
	}
	completed, err := db.CollectBulk(tx, rows, scanRun, `UPDATE eval_runs
		SET pending = false, success = v.success, passed = v.passed, score = v.score, judged = true,
			error = v.error, result = v.result, size = v.size, version = version + 1,
			updated_at = CASE WHEN created_at > v.at THEN created_at ELSE v.at END
		{FROM v} WHERE eval_runs.org_id = v.org_id AND eval_runs.id = v.id AND pending
			AND (v.project_id = '' OR project_id = v.project_id)
		RETURNING `+runColumns)
	if err != nil {
		return fmt.Errorf("update runs: %w", err)
	}
	for i, r := range completed {
		byKey[key{r.OrgID, r.ID}].completed = &completed[i]
	}
	return nil
}

// judgeBatch caps the results that one transaction judges.
const judgeBatch = 500

// judgeRuns reads passed and score from results that an earlier version stored, before the upgrade or
// on a replica that still runs beside this one.
func (s *Store) judgeRuns(ctx context.Context) error {
	type judged struct {
		OrgID, ID string
		Passed    *bool
		Score     *float64
	}
	scan := func(row db.Row) (j judged, err error) {
		var result []byte
		if err := row.Scan(&j.OrgID, &j.ID, &result); err != nil {
			return j, err
		}
		v := judge(result)
		j.Passed = v.passed
		j.Score = v.score
		return j, nil
	}
	for last := (judged{}); ; {
		runs, err := db.Collect(s.DB.Read(ctx), scan, `SELECT org_id, id, result FROM eval_runs
			WHERE NOT judged AND result IS NOT NULL AND (org_id, id) > ($1, $2) ORDER BY org_id, id LIMIT $3`,
			last.OrgID, last.ID, judgeBatch)
		if err != nil || len(runs) == 0 {
			return err
		}
		if err := s.DB.Write(ctx, func(tx *db.Tx) error {
			return db.Bulk[judged](runs).Send(tx, `UPDATE eval_runs
				SET passed = v.passed, score = v.score, judged = true, version = version + 1
				{FROM v} WHERE eval_runs.org_id = v.org_id AND eval_runs.id = v.id AND NOT judged`)
		}); err != nil {
			return err
		}
		last = runs[len(runs)-1]
	}
}
