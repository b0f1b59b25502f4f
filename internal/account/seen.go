package account

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"steward/internal/auth"
	"steward/internal/stamp"
)

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
