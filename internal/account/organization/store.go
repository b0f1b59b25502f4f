package organization

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/stamp"
)

// maxOrgs is the number of memberships from which a user can no longer create organizations. It is also
// how many we list.
const maxOrgs = 100

// Store holds this package's SQL. Removal is in store_removal.go, everything else here.
type Store struct {
	Accounts *account.Store
	// Caches names the caches, in addition to auth.Callers, that depend on whether an organization is
	// deleted.
	Caches []string
	// UserTables are the tables with a column user_id and no organization. Their rows are removed
	// together with the user.
	UserTables []string
	// NeedsProvider locks a user, and reports whether an organization's provider is the user's only way
	// to sign in.
	NeedsProvider func(tx *db.Tx, userID string) (bool, error)
	// UserRemoved is called in the transaction that removes a user. It removes the user's traces in other
	// organizations.
	UserRemoved []func(tx *db.Tx, userID string) error
}

func (s *Store) db() *db.DB { return s.Accounts.DB }

func (s *Store) now() stamp.Time { return stamp.Of(s.Accounts.Now()) }

// selectFirst selects the oldest organization.
const selectFirst = `SELECT id FROM orgs ORDER BY created_at, id LIMIT 1`

func first(q db.Querier) (orgID string, err error) {
	if err := q.Row(selectFirst).Scan(&orgID); err != nil {
		return "", fmt.Errorf("find the first organization: %w", err)
	}
	return orgID, nil
}

// ownsFirst reports whether a caller owns the first organization. API keys, access tokens and confined
// users act only in their own organization.
func (s *Store) ownsFirst(ctx context.Context, caller *auth.Caller) (bool, error) {
	orgID, err := first(s.db().Read(ctx))
	if err != nil {
		return false, err
	}
	if caller.OrgID == orgID || caller.KeyID != "" || caller.ClientID != "" || caller.Confined {
		return caller.OrgID == orgID && caller.Role == auth.Owner, nil
	}
	role, err := s.Accounts.Role(ctx, orgID, caller.UserID)
	if errs.KindOf(err) == errs.NotFound {
		return false, nil
	}
	return role == auth.Owner, err
}

// Create creates an organization with a default project. The caller's user becomes its owner. Create returns
// Conflict if the user belongs to too many organizations. It returns Forbidden if an organization's provider
// is the user's only way to sign in, because the provider refuses users who belong to another one.
func (s *Store) Create(ctx context.Context, caller *auth.Caller, n New) (account.Org, error) {
	f := account.First{OrgID: id.New(id.Org), UserID: caller.UserID, ProjectID: id.New(id.Project)}
	return account.Org{ID: f.OrgID, Name: n.Name, Role: auth.Owner}, s.db().Write(ctx, func(tx *db.Tx) error {
		alone, err := s.NeedsProvider(tx, caller.UserID)
		if err != nil {
			return err
		}
		if alone {
			return errs.New(errs.Forbidden, "the provider of your organization is your only way to sign in, "+
				"and it signs nobody in who belongs to another organization as well")
		}
		var orgs int
		if err := tx.Row(`SELECT count(*) FROM members WHERE user_id = $1`, caller.UserID).Scan(&orgs); err != nil {
			return fmt.Errorf("count organizations of user: %w", err)
		}
		if orgs >= maxOrgs {
			return errs.New(errs.Conflict, "you belong to %d organizations; at most %d are allowed", orgs, maxOrgs)
		}
		if err := s.Accounts.InsertOwned(tx, f, n.Name); err != nil {
			return err
		}
		if err := tx.Invalidate(auth.Callers); err != nil {
			return err
		}
		return s.auditIn(tx, f.OrgID, "organization.create")
	})
}

// auditIn records the transaction's caller's action on an organization, in that organization's log.
func (s *Store) auditIn(tx *db.Tx, orgID, action string) error {
	there := *auth.From(tx.Context())
	there.OrgID = orgID
	return s.db().Write(auth.With(tx.Context(), &there), func(tx *db.Tx) error { return s.Accounts.Audit.Record(tx, action, orgID) })
}

// Delete deletes the caller's organization, which can be restored within the grace period. It returns
// Conflict for the first organization.
func (s *Store) Delete(ctx context.Context, caller *auth.Caller) (account.Org, error) {
	return s.change(ctx, caller, "organization.delete", func(tx *db.Tx) (changed int64, err error) {
		orgID, err := first(tx)
		if err != nil {
			return 0, err
		}
		if orgID == caller.OrgID {
			return 0, errs.New(errs.Conflict, "the first organization of an installation cannot be deleted")
		}
		return tx.Exec(`UPDATE orgs SET deleted_at = $2 WHERE id = $1 AND deleted_at IS NULL`, caller.OrgID, s.now())
	})
}

// Restore restores the caller's organization. It does nothing if the organization is not deleted, and
// returns NotFound if its removal has begun.
func (s *Store) Restore(ctx context.Context, caller *auth.Caller) (account.Org, error) {
	return s.change(ctx, caller, "organization.restore", func(tx *db.Tx) (changed int64, err error) {
		if _, err := deletion(tx, caller.OrgID); err != nil {
			return 0, err
		}
		return tx.Exec(`UPDATE orgs SET deleted_at = NULL WHERE id = $1 AND deleted_at IS NOT NULL AND NOT removing`, caller.OrgID)
	})
}

// change deletes or restores the caller's organization, and returns it. do returns the number of changed
// rows.
func (s *Store) change(ctx context.Context, caller *auth.Caller, action string, do func(tx *db.Tx) (int64, error)) (account.Org, error) {
	err := s.db().Write(ctx, func(tx *db.Tx) error {
		changed, err := do(tx)
		if err != nil {
			return fmt.Errorf("%s: %w", action, err)
		}
		if changed == 0 {
			return nil
		}
		if err := s.invalidate(tx); err != nil {
			return err
		}
		return s.Accounts.Audit.Record(tx, action, caller.OrgID)
	})
	if err != nil {
		return account.Org{}, err
	}
	return s.Accounts.Org(ctx, caller)
}

// invalidate empties the caches that depend on whether an organization is deleted.
func (s *Store) invalidate(tx *db.Tx) error {
	for _, cache := range append([]string{auth.Callers}, s.Caches...) {
		if err := tx.Invalidate(cache); err != nil {
			return err
		}
	}
	return nil
}

// deletion returns the time when an organization was deleted, or nil. It returns NotFound if there is no
// such organization, or if its removal has begun.
func deletion(q db.Querier, orgID string) (at *stamp.Time, err error) {
	err = q.Row(`SELECT deleted_at FROM orgs WHERE id = $1 AND NOT removing`, orgID).Scan(&at)
	if errors.Is(err, db.ErrNoRows) {
		return nil, errs.Missing("organization", orgID)
	}
	if err != nil {
		return nil, fmt.Errorf("read organization: %w", err)
	}
	return at, nil
}

// Active caches which organizations have been deleted. A nil Active takes all for active.
type Active struct {
	DB *db.DB

	deletions db.Cache[string, *stamp.Time]
}

// Forget empties the cache. Call it when auth.Callers is invalidated.
func (a *Active) Forget() { a.deletions.Forget() }

// Check returns Forbidden if the organization was deleted.
func (a *Active) Check(ctx context.Context, orgID string) error {
	if a == nil {
		return nil
	}
	at, err := a.deletions.Get(orgID, func() (*stamp.Time, error) { return deletion(a.DB.Read(ctx), orgID) })
	switch {
	case errs.KindOf(err) == errs.NotFound:
		return errs.New(errs.Forbidden, "the organization was deleted and is being removed")
	case err != nil:
		return err
	case at != nil:
		return errs.New(errs.Forbidden, "the organization was deleted at %s; an owner can restore it until %s",
			at, at.Add(account.Grace))
	}
	return nil
}
