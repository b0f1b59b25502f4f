package signin

import (
	"context"
	"net/http"
	"sync"
	"time"

	"steward/internal/account"
	"steward/internal/oidc/provider/oauth"
)

// maxPassword caps the bytes we hash when we check a password. Passwords that can be set are shorter.
const maxPassword = 2048

// Hasher checks and hashes passwords, only as many at a time as the machine can bear: each takes about
// 20 ms CPU time and 19 MiB.
type Hasher struct {
	// Compare is account.CheckPassword, which takes as long for an empty hash. Tests watch it.
	Compare func(hash, password string) bool
	// Cost is the cost of new hashes.
	Cost account.PasswordCost

	slots *slots
}

// NewHasher returns a Hasher that works on atOnce passwords at a time.
func NewHasher(atOnce int) *Hasher {
	return &Hasher{
		Compare: account.CheckPassword, Cost: account.UsualCost,
		slots: &slots{free: make(chan struct{}, atOnce), average: firstEstimate},
	}
}

// Check reports whether a password matches a hash. It returns ErrBusy if too many passwords are being
// checked.
func (h *Hasher) Check(ctx context.Context, hash, password string) (correct bool, err error) {
	password = password[:min(len(password), maxPassword)]
	err = h.slots.do(ctx, func() { correct = h.Compare(hash, password) })
	return correct, err
}

// Hash returns a new password's hash. It returns ErrBusy like Check.
func (h *Hasher) Hash(ctx context.Context, password string) (hash string, err error) {
	err = h.slots.do(ctx, func() { hash = h.Cost.Hash(password) })
	return hash, err
}

const (
	// MaxWait caps the time that a request waits for a slot. If it would have to wait longer, we refuse
	// it at once.
	MaxWait = 2 * time.Second
	// slotTimeout bounds the wait if the machine has become slower than the estimate.
	slotTimeout = 3 * time.Second
	// firstEstimate is our estimate for hashing a password before we have hashed one.
	firstEstimate = 25 * time.Millisecond
)

// ErrBusy means that more passwords wait to be hashed than MaxWait allows.
var ErrBusy = &oauth.Error{
	Status: http.StatusTooManyRequests, Code: oauth.Unavailable,
	Description: "many people are signing in right now: wait a few seconds, then try again",
}

// slots bounds the passwords that we hash at the same time, since hashing takes much CPU and memory,
// and those that wait.
type slots struct {
	free chan struct{}

	mu sync.Mutex
	// inside counts the passwords that we are hashing or that wait.
	inside int
	// average is a moving average over the time that one takes.
	average time.Duration
}

// do calls f in a slot. It returns ErrBusy if none will be free in time.
func (s *slots) do(ctx context.Context, f func()) error {
	if !s.enter() {
		return ErrBusy
	}
	defer s.leave()
	ctx, cancel := context.WithTimeout(ctx, slotTimeout)
	defer cancel()
	select {
	case s.free <- struct{}{}:
	case <-ctx.Done():
		return ErrBusy
	}
	defer func() { <-s.free }()
	start := time.Now()
	f()
	s.measured(time.Since(start))
	return nil
}

// enter joins the queue. It reports whether the wait is short enough.
func (s *slots) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slots := cap(s.free)
	ahead := s.inside - slots + 1 // must end before this one can begin
	if time.Duration(ahead)*s.average/time.Duration(slots) > MaxWait {
		return false
	}
	s.inside++
	return true
}

func (s *slots) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
}

func (s *slots) measured(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.average += (took - s.average) / 8
}
