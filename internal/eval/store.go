package eval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/web"
)

// Store has this package's SQL: evals and counts here, runs in store_run.go, lists in store_list.go,
// and background work in store_relabel.go and store_purge.go.
type Store struct {
	DB       *db.DB
	Now      func() time.Time
	Audit    *audit.Store
	Accounts *account.Store
	// Decoding bounds the memory for comparing results.
	Decoding *web.Decoding

	// large remembers lists with more than page.MaxCounted rows.
	large       page.CountCache
	starts      db.Gather[*queuedStart]
	completions db.Gather[*queuedCompletion]
}

func (s *Store) now() stamp.Time { return stamp.Of(s.Now()) }

const evalColumns = `id, name, description, identifier, agent_identifier, org_id, project_id, deployment_id, release,
	filename, devmode, created_at, updated_at, version`

func scanEval(row db.Row) (e Eval, err error) {
	return e, row.Scan(&e.ID, &e.Name, &e.Description, &e.Identifier, &e.AgentIdentifier, &e.OrgID, &e.ProjectID,
		&e.DeploymentID, &e.Version, &e.Filename, &e.Devmode, &e.CreatedAt, &e.UpdatedAt, &e.version)
}

// Get returns an eval. It returns NotFound if there is none or if the caller does not see it.
func (s *Store) Get(ctx context.Context, caller *auth.Caller, evalID string) (Eval, error) {
	e, err := scanEval(s.DB.Read(ctx).Row(`SELECT `+evalColumns+` FROM evals WHERE org_id = $1 AND id = $2`,
		caller.OrgID, evalID))
	if errors.Is(err, db.ErrNoRows) {
		return Eval{}, errs.Missing("evaluation", evalID)
	}
	if err != nil {
		return Eval{}, fmt.Errorf("get eval: %w", err)
	}
	if !caller.Sees(e.ProjectID) {
		return Eval{}, errs.Missing("evaluation", evalID)
	}
	return e, nil
}

// Put creates or replaces an eval. It returns NotFound for an eval that the caller does not see,
// Forbidden for a project that the caller may not use, and PreconditionFailed if match names another
// version.
func (s *Store) Put(ctx context.Context, caller *auth.Caller, e Eval, match page.IfMatch) (Eval, error) {
	var stored Eval
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := s.Accounts.EnsureProject(tx, caller, "body.projectId", e.ProjectID); err != nil {
			return err
		}
		var err error
		if stored, err = s.newEvalWriter(tx, caller).put(e, match); err != nil {
			return err
		}
		return s.Audit.Record(tx, "eval.put", e.ID)
	})
	if errors.Is(err, errOtherProject) {
		return Eval{}, errs.Missing("evaluation", e.ID)
	}
	return stored, err
}

// Sync deletes evals and then creates or replaces others, in one transaction. It returns Forbidden
// for a project or an eval that the caller may not use, and ignores ids to delete that do not
// exist.
func (s *Store) Sync(
	ctx context.Context, caller *auth.Caller, target string, create []Eval, remove []string,
) (Synced, error) {
	var synced Synced
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		w := s.newEvalWriter(tx, caller)
		synced = Synced{Created: []string{}, Deleted: []string{}}
		for _, evalID := range remove {
			existed, err := w.delete(evalID)
			if err != nil {
				return err
			}
			if existed {
				synced.Deleted = append(synced.Deleted, evalID)
			}
		}
		checked := map[string]bool{}
		for _, e := range create {
			if !checked[e.ProjectID] {
				if err := s.Accounts.EnsureProject(tx, caller, "body.create.projectId", e.ProjectID); err != nil {
					return err
				}
				checked[e.ProjectID] = true
			}
			if _, err := w.put(e, page.IfMatch{}); err != nil {
				return err
			}
			synced.Created = append(synced.Created, e.ID)
		}
		return s.Audit.Record(tx, "eval.sync", target)
	})
	if errors.Is(err, errOtherProject) {
		return Synced{}, errs.New(errs.Forbidden, "an evaluation of this request belongs to another project than this key")
	}
	return synced, err
}

// errOtherProject means that the caller does not see the eval's project.
var errOtherProject = errors.New("the eval is in another project")

type evalWriter struct {
	s      *Store
	tx     *db.Tx
	caller *auth.Caller
	// labels counts down the runs that the transaction may still label.
	labels int
}

func (s *Store) newEvalWriter(tx *db.Tx, caller *auth.Caller) *evalWriter {
	return &evalWriter{s: s, tx: tx, caller: caller, labels: labelBatch}
}

func (w *evalWriter) put(e Eval, match page.IfMatch) (Eval, error) {
	for {
		old, err := w.lock(e.ID)
		if errors.Is(err, db.ErrNoRows) {
			inserted, err := w.insert(&e, match)
			if err != nil || inserted {
				return e, err
			}
			continue // another transaction has inserted it, and may have deleted it again
		}
		if err != nil {
			return Eval{}, fmt.Errorf("lock eval: %w", err)
		}
		if !w.caller.Sees(old.ProjectID) {
			return Eval{}, errOtherProject
		}
		if err := match.Check(old); err != nil {
			return Eval{}, err
		}
		return e, w.replace(old, &e)
	}
}

// lock returns the current row and locks it by raising its version.
func (w *evalWriter) lock(evalID string) (Eval, error) {
	e, err := scanEval(w.tx.Row(`UPDATE evals SET version = version + 1 WHERE org_id = $1 AND id = $2
		RETURNING `+evalColumns, w.caller.OrgID, evalID))
	e.version--
	return e, err
}

// insert inserts an eval. It returns false if there is one already.
func (w *evalWriter) insert(e *Eval, match page.IfMatch) (bool, error) {
	if match.IfMatch != "" {
		return false, errs.New(errs.PreconditionFailed, "evaluation %s does not exist", e.ID)
	}
	e.OrgID = w.caller.OrgID
	e.CreatedAt = w.s.now()
	e.UpdatedAt = e.CreatedAt
	e.version = 1
	n, err := w.tx.Exec(`INSERT INTO evals (`+evalColumns+`)
		VALUES (@id, @name, @description, @identifier, @agent_identifier, @org_id, @project_id, @deployment_id,
		@release, @filename, @devmode, @created_at, @updated_at, @version) ON CONFLICT (org_id, id) DO NOTHING`,
		db.Args{
			"id": e.ID, "name": e.Name, "description": e.Description, "identifier": e.Identifier,
			"agent_identifier": e.AgentIdentifier, "org_id": e.OrgID, "project_id": e.ProjectID,
			"deployment_id": e.DeploymentID, "release": e.Version, "filename": e.Filename, "devmode": e.Devmode,
			"created_at": e.CreatedAt, "updated_at": e.UpdatedAt, "version": e.version,
		})
	if err != nil {
		return false, fmt.Errorf("insert eval: %w", err)
	}
	if n == 0 {
		return false, nil
	}
	if err := addEvals(w.tx, e.OrgID, e.ProjectID, 1); err != nil {
		return false, err
	}
	return true, w.label(*e)
}

func (w *evalWriter) replace(old Eval, e *Eval) error {
	e.OrgID = old.OrgID
	e.CreatedAt = old.CreatedAt
	e.UpdatedAt = w.s.now()
	e.version = old.version + 1
	if err := w.tx.Send(`UPDATE evals SET name = @name, description = @description, identifier = @identifier,
		agent_identifier = @agent_identifier, project_id = @project_id, deployment_id = @deployment_id, release = @release,
		filename = @filename, devmode = @devmode, updated_at = @updated_at
		WHERE org_id = @org_id AND id = @id`,
		db.Args{
			"org_id": e.OrgID, "id": e.ID, "name": e.Name, "description": e.Description,
			"identifier": e.Identifier, "agent_identifier": e.AgentIdentifier, "project_id": e.ProjectID,
			"deployment_id": e.DeploymentID, "release": e.Version, "filename": e.Filename, "devmode": e.Devmode,
			"updated_at": e.UpdatedAt,
		}); err != nil {
		return fmt.Errorf("update eval: %w", err)
	}
	if err := addEvals(w.tx, e.OrgID, old.ProjectID, -1); err != nil {
		return err
	}
	if err := addEvals(w.tx, e.OrgID, e.ProjectID, 1); err != nil {
		return err
	}
	if old.Name == e.Name && old.AgentIdentifier == e.AgentIdentifier {
		return nil
	}
	return w.label(*e)
}

// delete deletes an eval and reports whether there was one.
func (w *evalWriter) delete(evalID string) (bool, error) {
	var projectID string
	err := w.tx.Row(`DELETE FROM evals WHERE org_id = $1 AND id = $2 RETURNING project_id`, w.caller.OrgID, evalID).
		Scan(&projectID)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("delete eval: %w", err)
	}
	if !w.caller.Sees(projectID) {
		return false, errOtherProject
	}
	return true, addEvals(w.tx, w.caller.OrgID, projectID, -1)
}

// evalNames finds evals in an organization, projectEvalNames in a project.
var (
	evalNames        = db.NameIndex{Table: "evals", ID: "id", Index: "evals_name"}
	projectEvalNames = db.NameIndex{Table: "evals", ID: "id", Index: "evals_project_name"}
)

// Search finds evals that the caller sees, by their id or by words in their name.
func (s *Store) Search(ctx context.Context, caller *auth.Caller, text string, limit int) ([]db.Named, error) {
	if caller.ProjectID != "" {
		return projectEvalNames.With("project_id", caller.ProjectID).Find(s.DB.Read(ctx), caller.OrgID, text, limit)
	}
	return evalNames.Find(s.DB.Read(ctx), caller.OrgID, text, limit)
}

// counts has each project's evals and runs, by kind and key.
var counts = db.NewCounters("eval_counts", []string{"org_id", "kind", "key", "project_id"}, []string{"n"})

// The kinds of counts.
const (
	countEvals     = "eval"
	countRuns      = "run"
	countAgentRuns = "run by agent" // the key is the agent
	countEvalRuns  = "run by eval"  // the key is the eval's id
)

// counter names a project's count, or the organization's if projectID is empty.
type counter struct {
	orgID, kind, key, projectID string
}

func (c counter) add(tx *db.Tx, n int64) error {
	if err := counts.Add(tx, []any{c.orgID, c.kind, c.key, c.projectID}, n); err != nil {
		return fmt.Errorf("count %q: %w", c.kind, err)
	}
	return nil
}

func (c counter) get(q db.Querier) (int64, error) {
	prefix := []any{c.orgID, c.kind, c.key}
	if c.projectID != "" {
		prefix = append(prefix, c.projectID)
	}
	n, err := counts.Sum(q, prefix...)
	if err != nil {
		return 0, err
	}
	return n[0], nil
}

func addEvals(tx *db.Tx, orgID, projectID string, n int64) error {
	return counter{orgID: orgID, kind: countEvals, projectID: projectID}.add(tx, n)
}

// countedRun names the counts that include a run. The agent is nil until we know it.
type countedRun struct {
	orgID, projectID, evalID string
	agent                    *string
}

// addRuns adds n to the runs counted for a project, an eval and an agent.
func addRuns(tx *db.Tx, r countedRun, n int64) error {
	c := counter{orgID: r.orgID, kind: countRuns, projectID: r.projectID}
	if err := c.add(tx, n); err != nil {
		return err
	}
	c.kind = countEvalRuns
	c.key = r.evalID
	if err := c.add(tx, n); err != nil {
		return err
	}
	if r.agent == nil {
		return nil
	}
	c.kind = countAgentRuns
	c.key = *r.agent
	return c.add(tx, n)
}
