package eval

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/db"
	"steward/internal/stamp"
)

// purgeBatch is how many runs, and how many evals, one transaction removes.
const purgeBatch = 500

// DeleteOfProject removes the evals and runs of a deleted project: a batch in the transaction that
// deletes it, which is all for most projects, the rest by Sweep. Until then the rest is still
// listed and counted. What is written to a project of the same id later stays.
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

// purge removes a batch of what a project had at a time, and reports whether that was all.
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

// purgeNext removes a batch of a deleted project that is due, and reports whether there was one.
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
		return s.endPurge(tx, orgID, projectID, deletedAt)
	})
}

// endPurge deletes a purge that has found nothing more, or repeats it when transactions that were
// open at the deletion are over.
func (s *Store) endPurge(tx *db.Tx, orgID, projectID string, deletedAt stamp.Time) error {
	const where = ` WHERE org_id = $1 AND project_id = $2 AND deleted_at = $3`
	end := deletedAt.Add(grace)
	if s.now() < end {
		return tx.Send(`UPDATE eval_purges SET due_at = $4`+where, orgID, projectID, deletedAt, end)
	}
	return tx.Send(`DELETE FROM eval_purges`+where, orgID, projectID, deletedAt)
}
