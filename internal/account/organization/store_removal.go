package organization

import (
	"context"
	"fmt"
	"log/slog"

	"steward/internal/account"
	"steward/internal/db"
)

const (
	// batch caps the rows in one transaction, so that requests hardly wait for it.
	batch = 500
	// maxRemoving caps the organizations in one run.
	maxRemoving = 100
)

// Table is a table whose column org_id names the organization. Key lists the primary key's columns,
// separated by commas.
type Table struct{ Name, Key string }

// begin marks organizations whose grace period is over, so that they cannot be restored any more. It
// returns all organizations whose removal has begun.
func (s *Store) begin(ctx context.Context) ([]string, error) {
	over := s.now().Add(-account.Grace)
	var due bool
	if err := s.db().Read(ctx).Row(`SELECT EXISTS (SELECT 1 FROM orgs WHERE deleted_at <= $1 AND NOT removing)`, over).
		Scan(&due); err != nil {
		return nil, fmt.Errorf("find organizations to remove: %w", err)
	}
	if due {
		if _, err := s.db().Exec(ctx, `UPDATE orgs SET removing = TRUE WHERE deleted_at <= $1 AND NOT removing`, over); err != nil {
			return nil, fmt.Errorf("begin to remove organizations: %w", err)
		}
	}
	orgIDs, err := db.Collect(s.db().Read(ctx), db.Value[string], `SELECT id FROM orgs WHERE deleted_at IS NOT NULL AND removing
		ORDER BY deleted_at, id LIMIT $1`, maxRemoving)
	if err != nil {
		return nil, fmt.Errorf("list organizations to remove: %w", err)
	}
	return orgIDs, nil
}

// clear removes an organization's rows from a table, in small transactions. It reports whether none is
// left. It skips rows that another transaction has locked.
func (s *Store) clear(ctx context.Context, t Table, orgID string) (done bool, err error) {
	for {
		var some bool
		if err := s.db().Read(ctx).Row(`SELECT EXISTS (SELECT 1 FROM `+t.Name+` WHERE org_id = $1)`, orgID).Scan(&some); err != nil {
			return false, fmt.Errorf("find rows of %s: %w", t.Name, err)
		}
		if !some {
			return true, nil
		}
		n, err := s.db().Exec(ctx, `DELETE FROM `+t.Name+` WHERE org_id = $1 AND (`+t.Key+`) IN (SELECT `+t.Key+`
			FROM `+t.Name+` WHERE org_id = $1 LIMIT $2`+db.SkipLocked(s.db().Dialect())+`)`, orgID, batch)
		if err != nil {
			return false, fmt.Errorf("delete from %s: %w", t.Name, err)
		}
		if n == 0 {
			return false, nil
		}
	}
}

// removeMembers removes an organization's members, and the users who belong to no other organization.
func (s *Store) removeMembers(ctx context.Context, orgID string) error {
	for {
		userIDs, err := db.Collect(s.db().Read(ctx), db.Value[string],
			`SELECT user_id FROM members WHERE org_id = $1 ORDER BY user_id LIMIT $2`, orgID, batch)
		if err != nil {
			return fmt.Errorf("list members: %w", err)
		}
		if len(userIDs) == 0 {
			return nil
		}
		for _, userID := range userIDs {
			if err := s.db().Write(ctx, func(tx *db.Tx) error { return s.removeMember(tx, orgID, userID) }); err != nil {
				return err
			}
		}
	}
}

// removeMember removes a member, and the user if that was the last membership.
func (s *Store) removeMember(tx *db.Tx, orgID, userID string) error {
	if err := s.Accounts.Leave(tx, orgID, userID); err != nil {
		return err
	}
	var belongs bool
	if err := tx.Row(`SELECT EXISTS (SELECT 1 FROM members WHERE user_id = $1)`, userID).Scan(&belongs); err != nil {
		return fmt.Errorf("find memberships: %w", err)
	}
	if belongs {
		return nil
	}
	for _, removed := range s.UserRemoved {
		if err := removed(tx, userID); err != nil {
			return err
		}
	}
	for _, table := range s.UserTables {
		if _, err := tx.Exec(`DELETE FROM `+table+` WHERE user_id = $1`, userID); err != nil {
			return fmt.Errorf("delete from %s: %w", table, err)
		}
	}
	if _, err := tx.Exec(`DELETE FROM users WHERE id = $1`, userID); err != nil {
		return fmt.Errorf("delete user: %w", err)
	}
	return nil
}

// finish removes the row of an organization that is otherwise gone.
func (s *Store) finish(ctx context.Context, orgID string) error {
	return s.db().Write(ctx, func(tx *db.Tx) error {
		if _, err := tx.Exec(`DELETE FROM orgs WHERE id = $1 AND removing`, orgID); err != nil {
			return fmt.Errorf("delete organization: %w", err)
		}
		return s.invalidate(tx)
	})
}

// Step removes a part of an organization. It reports whether that part is gone; if not, the next run
// calls it again.
type Step func(ctx context.Context, orgID string) (done bool, err error)

// Remover removes deleted organizations after the grace period.
type Remover struct {
	Store *Store
	// Steps come from packages that have more than rows, or rows without an organization. They run first.
	Steps []Step
	// Tables have rows that belong to an organization and need no step.
	Tables []Table
	Log    *slog.Logger
}

// Run removes the organizations that are due. One that cannot be removed completely waits for the next
// run and does not delay the others.
func (r *Remover) Run(ctx context.Context) error {
	orgIDs, err := r.Store.begin(ctx)
	if err != nil {
		return err
	}
	for _, orgID := range orgIDs {
		done, err := r.remove(ctx, orgID)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			r.Log.Warn("a deleted organization is not removed completely yet", "organization", orgID, "error", err)
		case done:
			r.Log.Info("a deleted organization was removed", "organization", orgID)
		}
	}
	return nil
}

// remove removes an organization. It reports whether nothing is left.
func (r *Remover) remove(ctx context.Context, orgID string) (done bool, err error) {
	for _, step := range r.Steps {
		if done, err := step(ctx, orgID); err != nil || !done {
			return false, err
		}
	}
	for _, table := range r.Tables {
		if done, err := r.Store.clear(ctx, table, orgID); err != nil || !done {
			return false, err
		}
	}
	if err := r.Store.removeMembers(ctx, orgID); err != nil {
		return false, err
	}
	return true, r.Store.finish(ctx, orgID)
}
