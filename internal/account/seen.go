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

// FlushEvery is how often Seen.Flush must be called.
const FlushEvery = 20 * time.Second

// Seen keeps when members last used their organizations, until Flush writes it. It holds one time for
// each member who was seen since.
type Seen struct {
	Store *Store

	mu sync.Mutex
	at map[membershipKey]stamp.Time
}

type membershipKey struct{ orgID, userID string }

// Note notes that a caller uses the organization. Clients that act as themselves are not members.
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

// take returns what was noted since the last call.
func (s *Seen) take() map[membershipKey]stamp.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := s.at
	s.at = nil
	return pending
}

// keep keeps what could not be written for the next Flush, unless the member was seen again.
func (s *Seen) keep(pending map[membershipKey]stamp.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(pending, s.at)
	s.at = pending
}

// seenBatch is how many members one transaction updates.
const seenBatch = 500

// Flush writes when members were seen. What cannot be written is kept for the next call. Rows are
// updated in one order, so that two replicas do not wait for each other.
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
