package signin

import (
	"context"
	"runtime"
	"time"

	"steward/internal/errs"
	"steward/internal/oidc/provider/throttle"
)

// maxPassword bounds what is hashed of a password that is checked. Passwords that can be set are shorter.
const maxPassword = 2048

// passwordLimits returns the limits for guessing a password: for one account from one address, for one
// account from anywhere, and for one address.
func passwordLimits(email, address string) []throttle.Limit {
	network := throttle.Network(address)
	return []throttle.Limit{
		{Key: "pair " + network + " " + email, Burst: 10, Every: 20 * time.Second},
		{Key: "account " + email, Burst: 100, Every: 5 * time.Second},
		{Key: "address " + network, Burst: 300, Every: 500 * time.Millisecond},
	}
}

// slotTimeout is how long a sign-in waits for a slot.
const slotTimeout = 10 * time.Second

// Slots bounds how many passwords are hashed at the same time, since hashing takes much CPU and memory.
type Slots chan struct{}

// NewSlots returns slots for half of the cores.
func NewSlots() Slots { return make(Slots, max(1, runtime.GOMAXPROCS(0)/2)) }

// Do calls f in a slot. It returns Unavailable if there is none in time.
func (s Slots) Do(ctx context.Context, f func()) error {
	ctx, cancel := context.WithTimeout(ctx, slotTimeout)
	defer cancel()
	select {
	case s <- struct{}{}:
		defer func() { <-s }()
		f()
		return nil
	case <-ctx.Done():
		return errs.Unavailablef(nil, "too many users are signing in")
	}
}
