package eval

import (
	"context"
	"errors"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
)

const (
	// labelBatch and purgeBatch bound what one transaction changes.
	labelBatch = 1000
	purgeBatch = 500
	// grace is longer than any transaction takes. On PostgreSQL a run that starts at the same moment as its eval is written may see the
	// eval as little as the eval sees the run; so a walk over the runs begins when both must be there.
	grace = 10 * time.Second
)

// label gives the newest runs of an eval its name and agent, as far as the transaction has room, and leaves a mark for Sweep unless
// that must have been all.
func (p *putter) label(e Eval) error {
	var n int64
	var err error
	if p.labels > 0 {
		n, err = p.tx.Exec(`UPDATE eval_runs SET eval_name = $3, agent_identifier = $4 WHERE org_id = $1 AND id IN
			(SELECT r.id FROM eval_runs r WHERE r.org_id = $1 AND r.eval_id = $2
				AND (r.eval_name IS DISTINCT FROM $3 OR r.agent_identifier IS DISTINCT FROM $4)
				ORDER BY r.created_at DESC, r.id DESC LIMIT $5)`, e.OrgID, e.ID, e.Name, e.AgentIdentifier, p.labels)
	}
	p.labels -= n
	if err != nil || p.labels > 0 && p.tx.Dialect() == db.SQLite {
		return err
	}
	_, err = p.tx.Exec(`INSERT INTO eval_relabels (org_id, eval_id, due_at, after_at, after_id) VALUES ($1, $2, $3, -1, '')
		ON CONFLICT (org_id, eval_id) DO UPDATE SET due_at = excluded.due_at, after_at = -1, after_id = ''`,
		e.OrgID, e.ID, p.s.now().Add(grace))
	return err
}

// DeleteOfProject removes the evals and runs of a project that goes away: a batch at once, which is all for most, the rest by Sweep.
// Until that is done the rest is still listed and counted. What is written to a project of the same id later stays.
func (s *Store) DeleteOfProject(tx *db.Tx, orgID, projectID string) error {
	now := s.now()
	done, err := s.purge(tx, orgID, projectID, now)
	if err != nil {
		return err
	}
	due := now
	if done {
		due = now.Add(grace)
	}
	_, err = tx.Exec(`INSERT INTO eval_purges (org_id, project_id, gone_at, due_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (org_id, project_id) DO UPDATE SET gone_at = excluded.gone_at, due_at = excluded.due_at`, orgID, projectID, now, due)
	return err
}

// purge removes a batch of what a project had at a moment, and tells whether that was all.
func (s *Store) purge(tx *db.Tx, orgID, projectID string, at stamp.Time) (done bool, err error) {
	r, err := tx.Exec(`DELETE FROM eval_runs WHERE org_id = $1 AND id IN (SELECT r.id FROM eval_runs r
		WHERE r.org_id = $1 AND r.project_id = $2 AND r.written_at <= $3 ORDER BY r.created_at, r.id LIMIT $4)`,
		orgID, projectID, at, purgeBatch)
	if err != nil {
		return false, err
	}
	e, err := tx.Exec(`DELETE FROM evals WHERE org_id = $1 AND id IN (SELECT e.id FROM evals e
		WHERE e.org_id = $1 AND e.project_id = $2 AND e.updated_at <= $3 ORDER BY e.created_at, e.id LIMIT $4)`,
		orgID, projectID, at, purgeBatch)
	if err != nil {
		return false, err
	}
	return r < purgeBatch && e < purgeBatch,
		errors.Join(s.count(tx, orgID, evals, projectID, -e), s.count(tx, orgID, runs, projectID, -r))
}

// Sweep does what was put off and is due, one small transaction after the other. Several processes may do so at once.
func (s *Store) Sweep(ctx context.Context) error {
	for _, step := range []func(context.Context) (bool, error){s.relabelSome, s.purgeSome} {
		for more := true; more; {
			var err error
			if more, err = step(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// mark is a walk over the runs of an eval.
type mark struct {
	orgID, evalID string
	due, afterAt  stamp.Time
	afterID       string
}

// relabelSome does one step of a walk that is due, and tells whether there was one.
func (s *Store) relabelSome(ctx context.Context) (bool, error) {
	var m mark
	err := s.DB.Read(ctx).Row(`SELECT org_id, eval_id FROM eval_relabels WHERE due_at <= $1 ORDER BY due_at LIMIT 1`, s.now()).
		Scan(&m.orgID, &m.evalID)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, s.DB.Write(ctx, func(tx *db.Tx) error {
		err := tx.Row(`SELECT due_at, after_at, after_id FROM eval_relabels WHERE org_id = $1 AND eval_id = $2`, m.orgID, m.evalID).
			Scan(&m.due, &m.afterAt, &m.afterID)
		if errors.Is(err, db.ErrNoRows) {
			return nil // another process has finished it
		}
		if err != nil {
			return err
		}
		return m.step(tx)
	})
}

// step labels the next runs, oldest first. An eval that changes meanwhile sets the mark anew, so what is done with its old labels is
// done again; that is why a mark is moved and removed only as it was found.
func (m mark) step(tx *db.Tx) error {
	var name, agent string
	err := tx.Row(`SELECT name, agent_identifier FROM evals WHERE org_id = $1 AND id = $2`, m.orgID, m.evalID).Scan(&name, &agent)
	if errors.Is(err, db.ErrNoRows) {
		return m.remove(tx)
	}
	if err != nil {
		return err
	}
	places, err := db.Collect(tx, func(row db.Row) (p mark, err error) {
		err = row.Scan(&p.afterAt, &p.afterID)
		return p, err
	}, `SELECT created_at, id FROM eval_runs WHERE org_id = $1 AND eval_id = $2 AND (created_at, id) > ($3, $4)
		ORDER BY created_at, id LIMIT $5`, m.orgID, m.evalID, m.afterAt, m.afterID, labelBatch)
	if err != nil {
		return err
	}
	if len(places) == 0 {
		return m.remove(tx)
	}
	last := places[len(places)-1]
	_, err1 := tx.Exec(`UPDATE eval_runs SET eval_name = $3, agent_identifier = $4 WHERE org_id = $1 AND eval_id = $2
		AND (created_at, id) > ($5, $6) AND (created_at, id) <= ($7, $8)
		AND (eval_name IS DISTINCT FROM $3 OR agent_identifier IS DISTINCT FROM $4)`,
		m.orgID, m.evalID, name, agent, m.afterAt, m.afterID, last.afterAt, last.afterID)
	_, err2 := tx.Exec(`UPDATE eval_relabels SET after_at = $4, after_id = $5 WHERE org_id = $1 AND eval_id = $2 AND due_at = $3`,
		m.orgID, m.evalID, m.due, last.afterAt, last.afterID)
	return errors.Join(err1, err2)
}

func (m mark) remove(tx *db.Tx) error {
	_, err := tx.Exec(`DELETE FROM eval_relabels WHERE org_id = $1 AND eval_id = $2 AND due_at = $3`, m.orgID, m.evalID, m.due)
	return err
}

// purgeSome removes one batch of a deleted project, and tells whether there was one. The mark goes once nothing can come any more.
func (s *Store) purgeSome(ctx context.Context) (bool, error) {
	var orgID, projectID string
	var goneAt stamp.Time
	err := s.DB.Read(ctx).Row(`SELECT org_id, project_id, gone_at FROM eval_purges WHERE due_at <= $1 ORDER BY due_at LIMIT 1`, s.now()).
		Scan(&orgID, &projectID, &goneAt)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, s.DB.Write(ctx, func(tx *db.Tx) error {
		done, err := s.purge(tx, orgID, projectID, goneAt)
		if err != nil || !done {
			return err
		}
		end := goneAt.Add(grace)
		if s.now() < end {
			_, err = tx.Exec(`UPDATE eval_purges SET due_at = $4 WHERE org_id = $1 AND project_id = $2 AND gone_at = $3`,
				orgID, projectID, goneAt, end)
			return err
		}
		_, err = tx.Exec(`DELETE FROM eval_purges WHERE org_id = $1 AND project_id = $2 AND gone_at = $3`, orgID, projectID, goneAt)
		return err
	})
}
