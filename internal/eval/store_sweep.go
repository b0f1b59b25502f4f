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
	if p.labels > 0 {
		found, err := db.Collect(p.tx, scanLabelled, `SELECT id, created_at, eval_name, agent_identifier FROM eval_runs
			WHERE org_id = $1 AND eval_id = $2 AND (eval_name IS DISTINCT FROM $3 OR agent_identifier IS DISTINCT FROM $4)
			ORDER BY created_at DESC, id DESC LIMIT $5`, e.OrgID, e.ID, e.Name, e.AgentIdentifier, p.labels)
		if err != nil {
			return err
		}
		if err := relabel(p.tx, p.counts, e, found); err != nil {
			return err
		}
		p.labels -= len(found)
	}
	if p.labels > 0 && p.tx.Dialect() == db.SQLite {
		return nil
	}
	_, err := p.tx.Exec(`INSERT INTO eval_relabels (org_id, eval_id, due_at, after_at, after_id) VALUES ($1, $2, $3, -1, '')
		ON CONFLICT (org_id, eval_id) DO UPDATE SET due_at = excluded.due_at, after_at = -1, after_id = ''`,
		e.OrgID, e.ID, p.s.now().Add(grace))
	return err
}

// labelled is a run with the labels that it was found to have.
type labelled struct {
	id          string
	at          stamp.Time
	name, agent *string
}

func scanLabelled(row db.Row) (l labelled, err error) {
	return l, row.Scan(&l.id, &l.at, &l.name, &l.agent)
}

// relabel gives runs the name and agent of their eval, and counts them for that agent. A run that has another agent meanwhile than it was
// found with is passed over: it went away, or its eval was changed at the same time, which has left a mark.
func relabel(tx *db.Tx, counts tally, e Eval, found []labelled) error {
	byAgent := map[string]*db.Bulk{}
	for _, l := range found {
		if same(l.name, &e.Name) && same(l.agent, &e.AgentIdentifier) {
			continue
		}
		old := "" // no eval has it
		if l.agent != nil {
			old = *l.agent
		}
		if byAgent[old] == nil {
			byAgent[old] = db.NewBulk(db.Text, db.Text, db.Text, db.Text, db.Text)
		}
		byAgent[old].Add(e.OrgID, l.id, l.agent, e.Name, e.AgentIdentifier)
	}
	for old, rows := range byAgent {
		projects, err := db.CollectBulk(tx, rows, scanText, `UPDATE eval_runs SET eval_name = v.column4, agent_identifier = v.column5
			{FROM v} WHERE eval_runs.org_id = v.column1 AND eval_runs.id = v.column2 AND eval_runs.agent_identifier IS NOT DISTINCT FROM v.column3
			RETURNING project_id`)
		if err != nil {
			return err
		}
		for _, projectID := range projects {
			counts.agent(e.OrgID, projectID, given(old), -1)
			counts.agent(e.OrgID, projectID, &e.AgentIdentifier, 1)
		}
	}
	return nil
}

func scanText(row db.Row) (text string, err error) { return text, row.Scan(&text) }

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
	type gone struct {
		evalID string
		agent  *string
	}
	removed, err := db.Collect(tx, func(row db.Row) (g gone, err error) { return g, row.Scan(&g.evalID, &g.agent) },
		`DELETE FROM eval_runs WHERE org_id = $1 AND id IN (SELECT r.id FROM eval_runs r
		WHERE r.org_id = $1 AND r.project_id = $2 AND r.written_at <= $3 ORDER BY r.created_at, r.id LIMIT $4)
		RETURNING eval_id, agent_identifier`, orgID, projectID, at, purgeBatch)
	if err != nil {
		return false, err
	}
	e, err := tx.Exec(`DELETE FROM evals WHERE org_id = $1 AND id IN (SELECT e.id FROM evals e
		WHERE e.org_id = $1 AND e.project_id = $2 AND e.updated_at <= $3 ORDER BY e.created_at, e.id LIMIT $4)`,
		orgID, projectID, at, purgeBatch)
	if err != nil {
		return false, err
	}
	counts := tally{}
	counts.evals(orgID, projectID, -e)
	for _, g := range removed {
		counts.runs(orgID, projectID, g.evalID, g.agent, -1)
	}
	return len(removed) < purgeBatch && e < purgeBatch, counts.write(s, tx)
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
		return m.step(s, tx)
	})
}

// step labels the next runs, oldest first. An eval that changes meanwhile sets the mark anew, so what is done with its old labels is
// done again; that is why a mark is moved and removed only as it was found.
func (m mark) step(s *Store, tx *db.Tx) error {
	e := Eval{OrgID: m.orgID, ID: m.evalID}
	err := tx.Row(`SELECT name, agent_identifier FROM evals WHERE org_id = $1 AND id = $2`, m.orgID, m.evalID).
		Scan(&e.Name, &e.AgentIdentifier)
	if errors.Is(err, db.ErrNoRows) {
		return m.remove(tx)
	}
	if err != nil {
		return err
	}
	found, err := db.Collect(tx, scanLabelled, `SELECT id, created_at, eval_name, agent_identifier FROM eval_runs
		WHERE org_id = $1 AND eval_id = $2 AND (created_at, id) > ($3, $4) ORDER BY created_at, id LIMIT $5`,
		m.orgID, m.evalID, m.afterAt, m.afterID, labelBatch)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return m.remove(tx)
	}
	counts, last := tally{}, found[len(found)-1]
	if err := relabel(tx, counts, e, found); err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE eval_relabels SET after_at = $4, after_id = $5 WHERE org_id = $1 AND eval_id = $2 AND due_at = $3`,
		m.orgID, m.evalID, m.due, last.at, last.id)
	return errors.Join(err, counts.write(s, tx))
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
