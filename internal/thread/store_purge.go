package thread

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/db"
	"steward/internal/stamp"
	"steward/internal/thread/term"
)

// purgeBatch caps the rows that one transaction removes.
const purgeBatch = 200

// Purge removes threads whose retention has passed and the remains of deleted projects, in batches,
// until there is nothing more or ctx ends.
func (s *Store) Purge(ctx context.Context) error {
	before := s.now().Add(-s.Retention)
	expired := func(tx *db.Tx) (int, error) {
		threads, err := db.Collect(tx, scanIndexed, `SELECT `+indexedColumns+` FROM threads t WHERE t.deleted_at < $1
		ORDER BY t.deleted_at LIMIT $2`+db.SkipLocked(tx.Dialect()), before, purgeBatch)
		if err != nil {
			return 0, err
		}
		return len(threads), removeThreads(tx, threads)
	}
	if err := s.repeat(ctx, expired); err != nil {
		return fmt.Errorf("purge deleted threads: %w", err)
	}
	if err := s.repeat(ctx, purgeProjects); err != nil {
		return fmt.Errorf("purge deleted projects: %w", err)
	}
	return nil
}

// repeat runs purge in one transaction after the other until it finds nothing more.
func (s *Store) repeat(ctx context.Context, purge func(tx *db.Tx) (int, error)) error {
	for {
		var n int
		err := s.DB.Write(ctx, func(tx *db.Tx) error {
			var err error
			n, err = purge(tx)
			return err
		})
		if err != nil || n == 0 {
			return err
		}
	}
}

const indexedColumns = `t.org_id, t.id, t.project_id, t.created_at, t.updated_at, t.deleted, t.terms`

func scanIndexed(row db.Row) (t indexedThread, err error) {
	var packed []byte
	err = row.Scan(&t.OrgID, &t.ID, &t.ProjectID, &t.CreatedAt, &t.UpdatedAt, &t.Deleted, &packed)
	t.terms = term.Unpack(packed)
	return t, err
}

func removeThreads(tx *db.Tx, threads []indexedThread) error {
	index := newIndexWriter()
	for _, t := range threads {
		n, err := tx.Exec(`DELETE FROM threads WHERE org_id = $1 AND id = $2`, t.OrgID, t.ID)
		if err != nil {
			return fmt.Errorf("delete thread: %w", err)
		}
		if n == 0 {
			continue // another replica has removed it
		}
		index.remove(t)
	}
	return index.write(tx)
}

// ProjectGone removes a deleted project's threads and sessions. It removes a first batch in the
// transaction that deletes the project, and leaves the rest to Purge. Later writes to a new project
// with the same id stay.
func (s *Store) ProjectGone(tx *db.Tx, orgID, projectID string) error {
	now := s.now()
	n, err := purgeProject(tx, orgID, projectID, now)
	if err != nil {
		return fmt.Errorf("purge project: %w", err)
	}
	if n == 0 {
		return nil
	}
	if _, err := tx.Exec(`INSERT INTO thread_purges (org_id, project_id, deleted_at) VALUES ($1, $2, $3)
		ON CONFLICT (org_id, project_id) DO UPDATE SET deleted_at = excluded.deleted_at`, orgID, projectID, now); err != nil {
		return fmt.Errorf("insert purge: %w", err)
	}
	return nil
}

// purgeProjects removes a batch from a deleted project, or the project from thread_purges if it is
// empty.
func purgeProjects(tx *db.Tx) (int, error) {
	var orgID, projectID string
	var deletedAt stamp.Time
	err := tx.Row(`SELECT org_id, project_id, deleted_at FROM thread_purges LIMIT 1`).Scan(&orgID, &projectID, &deletedAt)
	if errors.Is(err, db.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := purgeProject(tx, orgID, projectID, deletedAt)
	if err != nil || n > 0 {
		return n, err
	}
	err = tx.Send(`DELETE FROM thread_purges WHERE org_id = $1 AND project_id = $2 AND deleted_at = $3`,
		orgID, projectID, deletedAt)
	return 1, err
}

// purgeProject removes a batch of threads and sessions that a project had at the given time, and
// returns their number.
func purgeProject(tx *db.Tx, orgID, projectID string, at stamp.Time) (int, error) {
	n := 0
	project := term.OfProject(projectID)
	for _, deleted := range []bool{false, true} {
		threads, err := db.Collect(tx, scanIndexed, `SELECT `+indexedColumns+` FROM
			(SELECT thread_id FROM thread_index_created WHERE org_id = $1 AND position >= $2 AND position <= $3
				ORDER BY position LIMIT $4) i
			JOIN threads t ON t.org_id = $1 AND t.id = i.thread_id`+forUpdate(tx),
			orgID, project.First(deleted), project.Position(deleted, at), purgeBatch)
		if err != nil {
			return 0, fmt.Errorf("list threads: %w", err)
		}
		if err := removeThreads(tx, threads); err != nil {
			return 0, err
		}
		n += len(threads)
	}
	sessions, err := purgeSessions(tx, orgID, projectID, at)
	return n + sessions, err
}

func purgeSessions(tx *db.Tx, orgID, projectID string, at stamp.Time) (int, error) {
	sessions, err := db.Collect(tx, scanScopedID, `SELECT org_id, id FROM sessions
		WHERE org_id = $1 AND project_id = $2 AND created_at <= $3 LIMIT $4`, orgID, projectID, at, purgeBatch)
	if err != nil {
		return 0, fmt.Errorf("list sessions: %w", err)
	}
	n, err := db.Bulk[scopedID](sessions).Exec(tx, `DELETE FROM sessions AS s {USING v} WHERE s.org_id = v.org_id AND s.id = v.id`)
	if err != nil {
		return 0, fmt.Errorf("delete sessions: %w", err)
	}
	return len(sessions), countSessions(tx, orgID, projectID, -n)
}
