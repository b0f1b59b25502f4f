package eval

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/db"
	"steward/internal/stamp"
)

// purgeBatch caps the runs, and the evals, that one transaction removes.
const purgeBatch = 500

// DeleteOfProject removes a deleted project's evals and runs. It removes a batch at once, which is
// enough for most projects, and leaves the rest to Sweep; until then, lists and counts include the
// rest. Later writes to a new project with the same id stay.
func (s *Store) DeleteOfProject(tx *db.Tx, orgID, projectID string) error {
	now := s.now()
	done, err := purge(tx, orgID, projectID, now)
	if err != nil {
		return fmt.Errorf("purge project: %w", err)
	}
	due := now
	if done {
		due = now.Add(grace)
	}
	if err := tx.Send(`INSERT INTO eval_purges (org_id, project_id, deleted_at, due_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (org_id, project_id) DO UPDATE SET deleted_at = excluded.deleted_at, due_at = excluded.due_at`,
		orgID, projectID, now, due); err != nil {
		return fmt.Errorf("schedule purge: %w", err)
	}
	return nil
}

// purge removes a batch that a project had at the given time, and reports whether that was all.
func purge(tx *db.Tx, orgID, projectID string, at stamp.Time) (bool, error) {
	runs, err := purgeRuns(tx, orgID, projectID, at)
	if err != nil {
		return false, err
	}
	evals, err := tx.Exec(`DELETE FROM evals WHERE org_id = $1 AND id IN (SELECT e.id FROM evals e
		WHERE e.org_id = $1 AND e.project_id = $2 AND e.updated_at <= $3 ORDER BY e.created_at, e.id LIMIT $4)`,
		orgID, projectID, at, purgeBatch)
	if err != nil {
		return false, fmt.Errorf("delete evals: %w", err)
	}
	if err := addEvals(tx, orgID, projectID, -evals); err != nil {
		return false, err
	}
	return runs < purgeBatch && evals < purgeBatch, nil
}

func purgeRuns(tx *db.Tx, orgID, projectID string, at stamp.Time) (int, error) {
	scan := func(row db.Row) (countedRun, error) {
		r := countedRun{orgID: orgID, projectID: projectID}
		err := row.Scan(&r.evalID, &r.agent)
		return r, err
	}
	runs, err := db.Collect(tx, scan, `DELETE FROM eval_runs WHERE org_id = $1 AND id IN (SELECT r.id FROM eval_runs r
		WHERE r.org_id = $1 AND r.project_id = $2 AND r.written_at <= $3 ORDER BY r.created_at, r.id LIMIT $4)
		RETURNING eval_id, agent_identifier`, orgID, projectID, at, purgeBatch)
	if err != nil {
		return 0, fmt.Errorf("delete runs: %w", err)
	}
	for _, r := range runs {
		if err := addRuns(tx, r, -1); err != nil {
			return 0, err
		}
	}
	return len(runs), nil
}

// purgeNext removes a batch from a deleted project that is due. It reports whether one was.
func (s *Store) purgeNext(ctx context.Context) (bool, error) {
	var orgID, projectID string
	var deletedAt stamp.Time
	err := s.DB.Read(ctx).Row(`SELECT org_id, project_id, deleted_at FROM eval_purges WHERE due_at <= $1
		ORDER BY due_at LIMIT 1`, s.now()).Scan(&orgID, &projectID, &deletedAt)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, s.DB.Write(ctx, func(tx *db.Tx) error {
		done, err := purge(tx, orgID, projectID, deletedAt)
		if err != nil || !done {
			return err
		}
		// If a transaction from before the deletion may still be open, it schedules the purge once
		// more instead.
		const where = ` WHERE org_id = $1 AND project_id = $2 AND deleted_at = $3`
		end := deletedAt.Add(grace)
		if s.now() < end {
			return tx.Send(`UPDATE eval_purges SET due_at = $4`+where, orgID, projectID, deletedAt, end)
		}
		return tx.Send(`DELETE FROM eval_purges`+where, orgID, projectID, deletedAt)
	})
}
