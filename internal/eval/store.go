package eval

import (
	"context"
	"errors"
	"sync"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Store is all SQL of this package: evals here, runs in store_run.go, lists in store_list.go, how many there are in store_count.go, what
// is put off in store_sweep.go.
type Store struct {
	DB  *db.DB
	Now func() time.Time
	// Audit writes who did it, in the same transaction.
	Audit func(tx *db.Tx, action, target string) error
	// Project sees to it that a named project is there, or refuses it.
	Project func(tx *db.Tx, caller *auth.Caller, location, projectID string) error

	crowds   page.CountCache[many]
	starts   db.Gather[*starting]
	ends     db.Gather[*ending]
	slotOnce sync.Once
	ownSlot  int64 // of this process in the counts
}

func (s *Store) now() stamp.Time { return stamp.Of(s.Now()) }

const evalColumns = `id, name, description, identifier, agent_identifier, org_id, project_id, deployment_id, release, filename, devmode,
	created_at, updated_at, version`

// columns are where evalColumns go.
func (e *Eval) columns() []any {
	return []any{
		&e.ID, &e.Name, &e.Description, &e.Identifier, &e.AgentIdentifier, &e.OrgID, &e.ProjectID, &e.DeploymentID, &e.Version, &e.Filename,
		&e.Devmode, (*int64)(&e.CreatedAt), (*int64)(&e.UpdatedAt), &e.version,
	}
}

func scanEval(row db.Row) (e Eval, err error) { return e, row.Scan(e.columns()...) }

// Get gives an eval that the caller sees, else NotFound.
func (s *Store) Get(ctx context.Context, caller *auth.Caller, evalID string) (Eval, error) {
	e, err := scanEval(s.DB.Read(ctx).Row(`SELECT `+evalColumns+` FROM evals WHERE org_id = $1 AND id = $2`, caller.OrgID, evalID))
	if errors.Is(err, db.ErrNoRows) || err == nil && !caller.Sees(e.ProjectID) {
		return Eval{}, errs.Missing("evaluation", evalID)
	}
	return e, err
}

// Put creates an eval or replaces it. An eval of a project that the caller does not see is NotFound, a project that it may not name is
// Forbidden, a version other than that of the condition PreconditionFailed.
func (s *Store) Put(ctx context.Context, caller *auth.Caller, e Eval, match page.IfMatch) (after Eval, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := s.Project(tx, caller, "body.projectId", e.ProjectID); err != nil {
			return err
		}
		p := s.newPutter(tx, caller)
		if after, err = p.put(e, match); err != nil {
			return err
		}
		return errors.Join(p.settle(), s.Audit(tx, "eval.put", e.ID))
	})
	if errors.Is(err, errForeign) {
		err = errs.Missing("evaluation", e.ID)
	}
	return after, err
}

// Sync removes evals and then creates or replaces others, all or nothing, and tells which ids were there and which are. A project or an
// eval that is not the caller's is Forbidden; ids to remove that nobody knows are passed over.
func (s *Store) Sync(ctx context.Context, caller *auth.Caller, target string, create []Eval, remove []string) (done Synced, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		done = Synced{Created: []string{}, Deleted: []string{}}
		p := s.newPutter(tx, caller)
		for _, evalID := range remove {
			gone, err := p.remove(evalID)
			if err != nil {
				return err
			}
			if gone {
				done.Deleted = append(done.Deleted, evalID)
			}
		}
		known := map[string]bool{}
		for _, e := range create {
			if !known[e.ProjectID] {
				if err := s.Project(tx, caller, "body.create.projectId", e.ProjectID); err != nil {
					return err
				}
				known[e.ProjectID] = true
			}
			if _, err := p.put(e, page.IfMatch{}); err != nil {
				return err
			}
			done.Created = append(done.Created, e.ID)
		}
		return errors.Join(p.settle(), s.Audit(tx, "eval.sync", target))
	})
	if errors.Is(err, errForeign) {
		err = errs.New(errs.Forbidden, "an evaluation of this request belongs to another project than this key")
	}
	return done, err
}

// errForeign is an eval of a project that the caller does not see.
var errForeign = errors.New("eval of another project")

// putter changes evals in one transaction. Counts are gathered and written last, in order, so that they are locked shortly and in the
// same order by all.
type putter struct {
	s      *Store
	tx     *db.Tx
	caller *auth.Caller
	counts tally
	// labels is how many runs may still be labelled in this transaction.
	labels int
}

func (s *Store) newPutter(tx *db.Tx, caller *auth.Caller) *putter {
	return &putter{s: s, tx: tx, caller: caller, counts: tally{}, labels: labelBatch}
}

func (p *putter) put(e Eval, match page.IfMatch) (Eval, error) {
	old, err := p.lock(e.ID)
	for errors.Is(err, db.ErrNoRows) {
		added, failed := p.insert(&e, match)
		if failed != nil || added {
			return e, failed
		}
		old, err = p.lock(e.ID) // somebody else has made it meanwhile, and may have removed it again
	}
	if err != nil {
		return e, err
	}
	if !p.caller.Sees(old.ProjectID) {
		return e, errForeign
	}
	if err := match.Check(old); err != nil {
		return e, err
	}
	return e, p.replace(old, &e)
}

// lock gives the row as it was and keeps others from changing it until the end of the transaction, by raising its version.
func (p *putter) lock(evalID string) (Eval, error) {
	e, err := scanEval(p.tx.Row(`UPDATE evals SET version = version + 1 WHERE org_id = $1 AND id = $2 RETURNING `+evalColumns,
		p.caller.OrgID, evalID))
	e.version--
	return e, err
}

func (p *putter) insert(e *Eval, match page.IfMatch) (added bool, err error) {
	if match.IfMatch != "" {
		return false, errs.New(errs.PreconditionFailed, "the resource is not there")
	}
	e.OrgID, e.CreatedAt, e.version = p.caller.OrgID, p.s.now(), 1
	e.UpdatedAt = e.CreatedAt
	n, err := p.tx.Exec(`INSERT INTO evals (`+evalColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
		ON CONFLICT (org_id, id) DO NOTHING`, e.ID, e.Name, e.Description, e.Identifier, e.AgentIdentifier, e.OrgID, e.ProjectID,
		e.DeploymentID, e.Version, e.Filename, e.Devmode, e.CreatedAt, e.UpdatedAt, e.version)
	if err != nil || n == 0 {
		return false, err
	}
	p.counts.evals(e.OrgID, e.ProjectID, 1)
	return true, p.label(*e)
}

func (p *putter) replace(old Eval, e *Eval) error {
	e.OrgID, e.CreatedAt, e.UpdatedAt, e.version = old.OrgID, old.CreatedAt, p.s.now(), old.version+1
	_, err := p.tx.Exec(`UPDATE evals SET name = $3, description = $4, identifier = $5, agent_identifier = $6, project_id = $7,
		deployment_id = $8, release = $9, filename = $10, devmode = $11, updated_at = $12 WHERE org_id = $1 AND id = $2`,
		e.OrgID, e.ID, e.Name, e.Description, e.Identifier, e.AgentIdentifier, e.ProjectID, e.DeploymentID, e.Version, e.Filename,
		e.Devmode, e.UpdatedAt)
	p.counts.evals(e.OrgID, old.ProjectID, -1)
	p.counts.evals(e.OrgID, e.ProjectID, 1)
	if err != nil || old.Name == e.Name && old.AgentIdentifier == e.AgentIdentifier {
		return err
	}
	return p.label(*e)
}

func (p *putter) remove(evalID string) (bool, error) {
	var projectID string
	err := p.tx.Row(`DELETE FROM evals WHERE org_id = $1 AND id = $2 RETURNING project_id`, p.caller.OrgID, evalID).Scan(&projectID)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	if err == nil && !p.caller.Sees(projectID) {
		err = errForeign
	}
	p.counts.evals(p.caller.OrgID, projectID, -1)
	return true, err
}

// settle writes the counts.
func (p *putter) settle() error { return p.counts.write(p.s, p.tx) }
