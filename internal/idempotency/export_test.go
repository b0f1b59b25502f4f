package idempotency

import "time"

// SetTimes replaces how long a repeat waits, and how often a claim is renewed.
func (s *Store) SetTimes(wait, renew time.Duration) {
	s.wait = wait
	s.renew = renew
}
