package signin

import (
	"context"
	"runtime"

	"steward/internal/account"
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

// NewHasher returns a Hasher that works on one password for each core at a time.
func NewHasher() *Hasher {
	return &Hasher{Compare: account.CheckPassword, Cost: account.UsualCost, slots: newSlots(runtime.GOMAXPROCS(0))}
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
