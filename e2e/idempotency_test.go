package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestIdempotencyKeyHoldsOverRestartAndReplicas repeats a request whose response has a secret.
func TestIdempotencyKeyHoldsOverRestartAndReplicas(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		body := object{"name": "once"}
		first := s.call("POST", "/cli/apikey", body, "Idempotency-Key", "a-1").want(201)
		repeat := func(what string, s *steward) {
			t.Helper()
			again := s.call("POST", "/cli/apikey", body, "Idempotency-Key", "a-1").want(201)
			if string(again.body) != string(first.body) {
				t.Fatalf("%s: got %s, want %s", what, again.body, first.body)
			}
		}
		repeat("at once", s)
		s.call("POST", "/cli/apikey", object{"name": "other"}, "Idempotency-Key", "a-1").want(422)
		s.kill()
		s.start()
		repeat("after a restart", s)
		if s.Database != "" {
			repeat("on a replica", s.replica())
		}
		var keys []any
		s.call("GET", "/cli/apikey", nil).want(200).decode(&keys)
		if len(keys) != 2 {
			t.Fatalf("%d keys, want the root key and one more", len(keys))
		}
	})
}

func TestConcurrentRepeatsTakeEffectOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		responses := make([]string, 16)
		var clients sync.WaitGroup
		for i := range responses {
			clients.Go(func() {
				r, err := s.try("POST", "/cli/project", object{"name": "one"}, "Idempotency-Key", "k")
				if err == nil {
					responses[i] = fmt.Sprint(r.status, string(r.body))
				}
			})
		}
		clients.Wait()
		for _, got := range responses {
			if got != responses[0] || !strings.HasPrefix(got, "201") {
				t.Fatalf("different responses: %s and %s", responses[0], got)
			}
		}
	})
}
