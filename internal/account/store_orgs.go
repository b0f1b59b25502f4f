package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

// Grace is how long a deleted organization can be restored.
const Grace = 7 * 24 * time.Hour

const selectOrg = `SELECT o.id, o.name, COALESCE(m.role, ''), o.deleted_at, o.mfa_factor, o.mfa_from, o.version FROM orgs o `

func scanOrg(row db.Row) (o Org, err error) {
	var factor *Factor
	var from *auth.Role
	err = row.Scan(&o.ID, &o.Name, &o.Role, &o.DeletedAt, &factor, &from, &o.version)
	if o.DeletedAt != nil {
		o.RemovedAt = new(o.DeletedAt.Add(Grace))
	}
	if factor != nil && from != nil {
		o.RequireMFA = &RequireMFA{Factor: *factor, From: *from}
	}
	return o, err
}

// Orgs returns the caller's organizations. API keys, clients that act as themselves and confined users
// have only one; other users get all of theirs, in the same order as from OrgsOfUser.
func (s *Store) Orgs(ctx context.Context, caller *auth.Caller) ([]Org, error) {
	if caller.KeyID == "" && caller.UserID != "" && !caller.Confined {
		return s.OrgsOfUser(ctx, caller.UserID)
	}
	own, err := s.Org(ctx, caller)
	return []Org{own}, err
}

// OrgsOfUser returns, by name, the organizations where a user is an enabled member. Deleted ones come last.
func (s *Store) OrgsOfUser(ctx context.Context, userID string) ([]Org, error) {
	orgs, err := db.Collect(s.DB.Read(ctx), scanOrg, selectOrg+`
		JOIN members m ON m.org_id = o.id WHERE m.user_id = $1 AND NOT m.disabled
		ORDER BY CASE WHEN o.deleted_at IS NULL THEN 0 ELSE 1 END, o.name, o.id LIMIT $2`, userID, maxMemberships)
	if err != nil {
		return nil, fmt.Errorf("list organizations of user: %w", err)
	}
	return orgs, nil
}

// Org returns the caller's organization, or NotFound.
func (s *Store) Org(ctx context.Context, caller *auth.Caller) (Org, error) {
	return org(s.DB.Read(ctx), caller)
}

func org(q db.Querier, caller *auth.Caller) (Org, error) {
	o, err := scanOrg(q.Row(selectOrg+`LEFT JOIN members m ON m.org_id = o.id AND m.user_id = $2
		AND NOT m.disabled WHERE o.id = $1`, caller.OrgID, caller.UserID))
	if errors.Is(err, db.ErrNoRows) {
		return Org{}, errs.Missing("organization", caller.OrgID)
	}
	if err != nil {
		return Org{}, fmt.Errorf("read organization: %w", err)
	}
	return o, nil
}

// Leave removes a member, with everything that belongs to them there, from an organization that is being
// removed. It removes even the last owner.
func (s *Store) Leave(tx *db.Tx, orgID, userID string) error {
	if _, err := lockMember(tx, orgID, userID); err != nil {
		if errs.KindOf(err) == errs.NotFound {
			return nil
		}
		return err
	}
	if _, err := tx.Exec(`DELETE FROM members WHERE org_id = $1 AND user_id = $2`, orgID, userID); err != nil {
		return fmt.Errorf("delete member: %w", err)
	}
	if err := tx.Invalidate(auth.Callers); err != nil {
		return err
	}
	return s.endAccess(tx, orgID, userID)
}

// LockOrg locks an organization until the transaction ends, so that counts of its rows stay valid.
func LockOrg(tx *db.Tx, orgID string) error {
	if _, err := tx.Exec(`UPDATE orgs SET name = name WHERE id = $1`, orgID); err != nil {
		return fmt.Errorf("lock organization: %w", err)
	}
	return nil
}

// OrgName returns an organization's name, or NotFound.
func (s *Store) OrgName(ctx context.Context, orgID string) (name string, err error) {
	err = s.DB.Read(ctx).Row(`SELECT name FROM orgs WHERE id = $1`, orgID).Scan(&name)
	if errors.Is(err, db.ErrNoRows) {
		return "", errs.Missing("organization", orgID)
	}
	if err != nil {
		return "", fmt.Errorf("read organization: %w", err)
	}
	return name, nil
}

// FlushEvery is the interval between calls to Seen.Flush.
const FlushEvery = 20 * time.Second

// Seen remembers when members last used their organizations, until Flush writes it. It keeps one time per
// member.
type Seen struct {
	Store *Store

	mu sync.Mutex
	at map[membershipKey]stamp.Time
}

type membershipKey struct{ orgID, userID string }

// Note notes that the caller is using the organization. Clients that act as themselves are not members.
func (s *Seen) Note(caller *auth.Caller) {
	if caller.UserID == "" {
		return
	}
	now := s.Store.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[membershipKey]stamp.Time{}
	}
	s.at[membershipKey{caller.OrgID, caller.UserID}] = now
}

// take returns the times noted since the last call.
func (s *Seen) take() map[membershipKey]stamp.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := s.at
	s.at = nil
	return pending
}

// keep restores times that could not be written, for the next Flush. Newer times win.
func (s *Seen) keep(pending map[membershipKey]stamp.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(pending, s.at)
	s.at = pending
}

// seenBatch caps the members that one transaction updates.
const seenBatch = 500

// Flush writes the times. It keeps those that it cannot write for the next call. It updates rows in one
// order, so that two replicas do not deadlock.
func (s *Seen) Flush(ctx context.Context) error {
	pending := s.take()
	order := slices.SortedFunc(maps.Keys(pending), func(a, b membershipKey) int {
		return cmp.Or(cmp.Compare(a.orgID, b.orgID), cmp.Compare(a.userID, b.userID))
	})
	for batch := range slices.Chunk(order, seenBatch) {
		if err := s.Store.touch(ctx, batch, pending); err != nil {
			s.keep(pending)
			return err
		}
		for _, key := range batch {
			delete(pending, key)
		}
	}
	return nil
}
