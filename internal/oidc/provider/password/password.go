// Package password checks and hashes passwords, only as many at a time as the machine can bear.
package password

import "context"

// maxLength caps the bytes we hash when we check a password. Passwords that can be set are shorter.
const maxLength = 2048

// Policy has the rules for passwords, which belong to another part of Steward.
type Policy struct {
	// Compare and Derive are expensive by design: about 20 ms CPU time and 19 MiB each. Compare takes
	// as long for an empty hash.
	Compare func(hash, password string) bool
	Derive  func(password string) (hash string)
	// Problem says, in a sentence, why a user with this email address cannot have a new password, or
	// returns "".
	Problem func(email, password string) string
	// MinLength is a new password's minimum length in characters.
	MinLength int
}

// Hasher checks and hashes passwords.
type Hasher struct {
	Policy

	slots *slots
}

// NewHasher returns a Hasher that works on n passwords at a time.
func NewHasher(p Policy, n int) *Hasher { return &Hasher{Policy: p, slots: newSlots(n)} }

// Check reports whether a password matches a hash. It returns ErrBusy if too many passwords are being
// checked.
func (h *Hasher) Check(ctx context.Context, hash, password string) (correct bool, err error) {
	password = password[:min(len(password), maxLength)]
	err = h.slots.do(ctx, func() { correct = h.Compare(hash, password) })
	return correct, err
}

// Hash returns a new password's hash. It returns ErrBusy like Check.
func (h *Hasher) Hash(ctx context.Context, password string) (hash string, err error) {
	err = h.slots.do(ctx, func() { hash = h.Derive(password) })
	return hash, err
}
