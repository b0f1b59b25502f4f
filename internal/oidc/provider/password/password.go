// Package password checks and hashes passwords, and limits how many it works on at the same time to
// protect the machine.
package password

import "context"

// maxLength bounds how much of a password we hash to check it. Passwords that users can set are shorter.
const maxLength = 2048

// Policy holds the rules for passwords, which another part of Steward defines.
type Policy struct {
	// Compare and Derive are expensive by design: about 20 ms of CPU and 19 MiB each. Compare takes the
	// same time for an empty hash.
	Compare func(hash, password string) bool
	Derive  func(password string) (hash string)
	// Problem explains, in a sentence, why the user with this email address cannot use this password.
	// It returns "" if they can.
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

// Check reports whether a password matches a hash. It returns ErrBusy if too many requests are waiting.
func (h *Hasher) Check(ctx context.Context, hash, password string) (correct bool, err error) {
	password = password[:min(len(password), maxLength)]
	err = h.slots.do(ctx, func() { correct = h.Compare(hash, password) })
	return correct, err
}

// Hash hashes a new password. It returns ErrBusy if too many requests are waiting.
func (h *Hasher) Hash(ctx context.Context, password string) (hash string, err error) {
	err = h.slots.do(ctx, func() { hash = h.Derive(password) })
	return hash, err
}
