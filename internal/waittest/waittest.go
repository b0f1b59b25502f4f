// Package waittest waits in tests for something that happens in the background.
//
// A wait ends when its condition holds, or fails when nothing has moved for three minutes. It has no
// deadline of its own, so that a slow or busy machine does not fail a test that makes progress.
package waittest

import (
	"testing"
	"time"
)

// stalled is how long a state may stay the same before the test fails. It is longer than the pauses of a
// minute after which libraries try something again.
const stalled = 3 * time.Minute

// Until polls until done is true. The state is whatever shows progress, such as the number of rows
// processed so far; the test fails when it has not changed for three minutes.
func Until[S comparable](t testing.TB, what string, poll func() (state S, done bool)) {
	t.Helper()
	last, done := poll()
	moved := time.Now()
	for pause := time.Millisecond; !done; pause = min(2*pause, 50*time.Millisecond) {
		time.Sleep(pause)
		var state S
		state, done = poll()
		if state != last {
			last = state
			moved = time.Now()
			pause = time.Millisecond
		}
		if !done && time.Since(moved) > stalled {
			t.Fatalf("waiting for %s: nothing has moved for %s (last state: %v)", what, stalled, last)
		}
	}
}

// True polls until done reports true, for conditions that have no measure of progress.
func True(t testing.TB, what string, done func() bool) {
	t.Helper()
	Until(t, what, func() (bool, bool) { ok := done(); return ok, ok })
}

// Within waits for something that is promised within a time. It does not mistake a slow machine for
// a broken promise: it fails when the time has passed and holds was called 200 more times since. To
// make sure that the other side gets its share of the machine, holds sends it a request.
func Within(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	start := time.Now()
	late := 0
	Until(t, what, func() (checks int, done bool) {
		if holds() {
			return late, true
		}
		if time.Since(start) > limit {
			late++
		}
		if late > 200 {
			t.Fatalf("waiting for %s: not within %v", what, limit)
		}
		return late, false
	})
}

// Receive receives from a channel.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case value, ok := <-from:
		if !ok {
			t.Fatalf("waiting for %s: the channel was closed", what)
		}
		return value
	case <-time.After(stalled):
		t.Fatalf("waiting for %s: nothing was received for %s", what, stalled)
	}
	panic("unreachable")
}
