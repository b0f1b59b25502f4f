package eval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
)

const (
	// labelBatch caps the runs that one transaction labels.
	labelBatch = 1000
	// grace is longer than any transaction takes. On PostgreSQL, a transaction that starts a run
	// and one that writes its eval may not see each other; after grace, both are visible.
	grace = 10 * time.Second
)

type runLabels struct {
	id          string
	at          stamp.Time
	name, agent *string
}

func scanRunLabels(row db.Row) (l runLabels, err error) {
	return l, row.Scan(&l.id, &l.at, &l.name, &l.agent)
}

// label labels an eval's newest runs, as many as the transaction may, and schedules a relabel unless
// these were all.
func (w *evalWriter) label(e Eval) error {
	if w.labels > 0 {
		runs, err := db.Collect(w.tx, scanRunLabels, `SELECT id, created_at, eval_name, agent_identifier FROM eval_runs
			WHERE org_id = @org_id AND eval_id = @eval_id
			AND (eval_name IS DISTINCT FROM @name OR agent_identifier IS DISTINCT FROM @agent)
			ORDER BY created_at DESC, id DESC LIMIT @limit`,
			db.Args{
				"org_id": e.OrgID, "eval_id": e.ID, "name": e.Name, "agent": e.AgentIdentifier,
				"limit": w.labels,
			})
		if err != nil {
			return fmt.Errorf("list runs to label: %w", err)
		}
		if err := setLabels(w.tx, e, runs); err != nil {
			return err
		}
		w.labels -= len(runs)
	}
	if w.labels > 0 && w.tx.Dialect() == db.SQLite {
		return nil
	}
	if err := w.tx.Send(`INSERT INTO eval_relabels (org_id, eval_id, due_at, after_at, after_id)
		VALUES ($1, $2, $3, -1, '')
		ON CONFLICT (org_id, eval_id) DO UPDATE SET due_at = excluded.due_at, after_at = -1, after_id = ''`,
		e.OrgID, e.ID, w.s.now().Add(grace)); err != nil {
		return fmt.Errorf("schedule relabel: %w", err)
	}
	return nil
}

// setLabels gives runs their eval's name and agent, and counts them. It skips a run whose agent
// changed since we read it: either the run is gone, or its eval changed and scheduled a relabel.
func setLabels(tx *db.Tx, e Eval, runs []runLabels) error {
	type label struct {
		OrgID, ID                 string
		Agent                     *string
		EvalName, AgentIdentifier string
	}
	byAgent := map[string]db.Bulk[label]{} // by the agent until now, which is "" if there is none
	for _, r := range runs {
		if equal(r.name, &e.Name) && equal(r.agent, &e.AgentIdentifier) {
			continue
		}
		agent := ""
		if r.agent != nil {
			agent = *r.agent
		}
		byAgent[agent] = append(byAgent[agent], label{
			OrgID: e.OrgID, ID: r.id, Agent: r.agent, EvalName: e.Name, AgentIdentifier: e.AgentIdentifier,
		})
	}
	for agent, rows := range byAgent {
		projects, err := db.CollectBulk(tx, rows, db.Value[string], `UPDATE eval_runs
			SET eval_name = v.eval_name, agent_identifier = v.agent_identifier, version = version + 1
			{FROM v} WHERE eval_runs.org_id = v.org_id AND eval_runs.id = v.id
			AND eval_runs.agent_identifier IS NOT DISTINCT FROM v.agent RETURNING project_id`)
		if err != nil {
			return fmt.Errorf("label runs: %w", err)
		}
		for _, projectID := range projects {
			c := counter{orgID: e.OrgID, kind: countAgentRuns, key: e.AgentIdentifier, projectID: projectID}
			if err := c.add(tx, 1); err != nil {
				return err
			}
			if agent == "" {
				continue
			}
			c.key = agent
			if err := c.add(tx, -1); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sweep does the background work that is due, in small transactions. Several processes may call it at
// once.
func (s *Store) Sweep(ctx context.Context) error {
	if err := s.judgeRuns(ctx); err != nil {
		return fmt.Errorf("judge runs: %w", err)
	}
	if err := repeat(ctx, s.relabelNext); err != nil {
		return fmt.Errorf("relabel runs: %w", err)
	}
	if err := repeat(ctx, s.purgeNext); err != nil {
		return fmt.Errorf("purge deleted projects: %w", err)
	}
	return nil
}

// repeat calls step until it finds nothing to do.
func repeat(ctx context.Context, step func(context.Context) (bool, error)) error {
	for {
		more, err := step(ctx)
		if err != nil || !more {
			return err
		}
	}
}

// relabel is a scheduled walk over an eval's runs, oldest first, that has come up to (afterAt, afterID).
type relabel struct {
	orgID, evalID string
	due, afterAt  stamp.Time
	afterID       string
}

// relabelNext takes the next step in a relabel that is due. It reports whether one was.
func (s *Store) relabelNext(ctx context.Context) (bool, error) {
	var r relabel
	err := s.DB.Read(ctx).Row(`SELECT org_id, eval_id FROM eval_relabels WHERE due_at <= $1
		ORDER BY due_at LIMIT 1`, s.now()).Scan(&r.orgID, &r.evalID)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, s.DB.Write(ctx, func(tx *db.Tx) error {
		err := tx.Row(`SELECT due_at, after_at, after_id FROM eval_relabels WHERE org_id = $1 AND eval_id = $2`,
			r.orgID, r.evalID).Scan(&r.due, &r.afterAt, &r.afterID)
		if errors.Is(err, db.ErrNoRows) {
			return nil // another process has finished it
		}
		if err != nil {
			return err
		}
		return r.step(tx)
	})
}

// step labels the next runs. If the eval changes meanwhile, its relabel begins again, so step updates
// and deletes only the row that it has read.
func (r relabel) step(tx *db.Tx) error {
	e := Eval{OrgID: r.orgID, ID: r.evalID}
	err := tx.Row(`SELECT name, agent_identifier FROM evals WHERE org_id = $1 AND id = $2`, r.orgID, r.evalID).
		Scan(&e.Name, &e.AgentIdentifier)
	if errors.Is(err, db.ErrNoRows) {
		return r.delete(tx)
	}
	if err != nil {
		return fmt.Errorf("get eval: %w", err)
	}
	runs, err := db.Collect(tx, scanRunLabels, `SELECT id, created_at, eval_name, agent_identifier FROM eval_runs
		WHERE org_id = @org_id AND eval_id = @eval_id AND (created_at, id) > (@after_at, @after_id)
		ORDER BY created_at, id LIMIT @limit`,
		db.Args{
			"org_id": r.orgID, "eval_id": r.evalID, "after_at": r.afterAt, "after_id": r.afterID,
			"limit": labelBatch,
		})
	if err != nil {
		return fmt.Errorf("list runs to label: %w", err)
	}
	if len(runs) == 0 {
		return r.delete(tx)
	}
	if err := setLabels(tx, e, runs); err != nil {
		return err
	}
	last := runs[len(runs)-1]
	if err := tx.Send(`UPDATE eval_relabels SET after_at = @after_at, after_id = @after_id
		WHERE org_id = @org_id AND eval_id = @eval_id AND due_at = @due_at`,
		db.Args{
			"org_id": r.orgID, "eval_id": r.evalID, "due_at": r.due, "after_at": last.at, "after_id": last.id,
		}); err != nil {
		return fmt.Errorf("update relabel: %w", err)
	}
	return nil
}

func (r relabel) delete(tx *db.Tx) error {
	if err := tx.Send(`DELETE FROM eval_relabels WHERE org_id = $1 AND eval_id = $2 AND due_at = $3`,
		r.orgID, r.evalID, r.due); err != nil {
		return fmt.Errorf("delete relabel: %w", err)
	}
	return nil
}
