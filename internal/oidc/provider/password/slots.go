package password

import (
	"context"
	"net/http"
	"sync"
	"time"

	"steward/internal/oidc/provider/oauth"
)

const (
	// MaxWait is how long a request may have to wait for a slot. One that would wait longer is refused at
	// once.
	MaxWait = 2 * time.Second
	// slotTimeout bounds the wait if the machine has become slower than the estimate.
	slotTimeout = 3 * time.Second
	// firstEstimate is how long a password is assumed to take before one was hashed.
	firstEstimate = 25 * time.Millisecond
)

// ErrBusy is returned when more passwords wait to be hashed than MaxWait allows.
var ErrBusy = &oauth.Error{
	Status: http.StatusTooManyRequests, Code: oauth.Unavailable,
	Description: "many people are signing in right now: wait a few seconds, then try again",
}

// slots bounds how many passwords are hashed at the same time, since hashing takes much CPU and memory,
// and how many wait for that.
type slots struct {
	free chan struct{}

	mu sync.Mutex
	// inside is how many are hashed or wait.
	inside int
	// average is how long one takes, as a moving average.
	average time.Duration
}

// newSlots returns n slots.
func newSlots(n int) *slots { return &slots{free: make(chan struct{}, n), average: firstEstimate} }

// do calls f in a slot. It returns ErrBusy if there will be none in time.
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

// enter joins the queue. It reports whether the wait will not be too long.
func (s *slots) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	slots := cap(s.free)
	ahead := s.inside - slots + 1 // how many must end before this one can begin
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
