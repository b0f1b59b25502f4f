package e2e

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"steward/internal/waittest"
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

// TestConcurrentRepeatsTakeEffectOnce repeats requests with effects in the database and elsewhere, on
// PostgreSQL over two replicas.
func TestConcurrentRepeatsTakeEffectOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		replicas := []*steward{s, s}
		if s.Database != "" {
			replicas[1] = s.replica()
		}
		region := "/resource/" + s.orgID + "/local"
		repeatAtOnce(t, replicas, "/cli/project", object{"name": "one"})
		repeatAtOnce(t, replicas, region, object{"resources": []object{{"type": "s3"}, {"type": "kv"}}})
		// An embedded database is served by the replica that has created it.
		repeatAtOnce(t, replicas[:1], region, object{"resources": []object{{"type": "db", "name": "shop"}}})
		repeatAtOnce(t, replicas[:1], region+"/shop/query", object{"query": "CREATE TABLE once (a)"})
		repeatAtOnce(t, replicas[:1], region+"/shop/rotate?type=db", nil)
	})
}

// repeatAtOnce sends a request 16 times at once, with the same key, and checks that all get the same.
func repeatAtOnce(t *testing.T, replicas []*steward, path string, body any) {
	t.Helper()
	key := rand.Text()
	responses := make([]string, 16)
	var clients sync.WaitGroup
	for i := range responses {
		clients.Go(func() {
			for range 10 { // on a slow machine a repeat may wait for too long
				r, err := replicas[i%len(replicas)].try("POST", path, body, "Idempotency-Key", key)
				if err != nil {
					t.Error(err)
					return
				}
				responses[i] = fmt.Sprint(r.status, string(r.body))
				if r.status != 503 {
					return
				}
			}
		})
	}
	clients.Wait()
	for _, got := range responses {
		if got != responses[0] || !strings.HasPrefix(got, "20") {
			t.Fatalf("%s: different responses: %s and %s", path, responses[0], got)
		}
	}
}

// TestKeyOfAKilledProcessIsFree kills a process while a request works outside of the database. A repeat
// waits until it is clear that the first one is gone, which must not take minutes.
func TestKeyOfAKilledProcessIsFree(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k := newSink(t)
		arrived := make(chan bool, 10)
		k.handle("/slow", func(_ http.ResponseWriter, r *http.Request, n int) {
			arrived <- true
			if n == 1 {
				<-r.Context().Done()
			}
		})
		hook := s.call("POST", "/webhook/create", object{"name": "a"}).want(201).text("id")
		destination := s.call("POST", "/webhook/destination-create/"+hook,
			object{"type": "url", "config": object{"url": k.URL + "/slow", "timeout_seconds": 60}}).want(201).text("id")
		test := "/webhook/destination-test/" + hook + "/" + destination
		go func() { _, _ = s.try("POST", test, nil, "Idempotency-Key", "k") }()
		waittest.Receive(t, "the test to arrive", arrived)
		s.kill()
		s.start()
		s.call("POST", test, nil, "Idempotency-Key", "k").want(200)
		waittest.Receive(t, "the test to arrive again", arrived)
	})
}

// TestFailedAnswerFreesItsKey corrects requests that were refused, and sends them with the same key.
func TestFailedAnswerFreesItsKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		region := "/resource/" + s.orgID + "/local"
		database := func(name string) object { return object{"resources": []object{{"type": "db", "name": name}}} }
		s.call("POST", region, database("taken")).want(201)
		for i, c := range []struct {
			path    string
			refused object
			status  int
			correct object
		}{
			{"/cli/project", object{"name": " "}, 422, object{"name": "one"}},
			{"/webhook/create", object{}, 422, object{"name": "one"}},
			{region, database("UPPER"), 422, database("lower")},
			{region, database("taken"), 409, database("free")},
			{region + "/taken/query", object{"query": "SELECT FROM"}, 422, object{"query": "SELECT 1"}},
		} {
			key := fmt.Sprint("k", i)
			s.call("POST", c.path, c.refused, "Idempotency-Key", key).want(c.status)
			again := s.call("POST", c.path, c.refused, "Idempotency-Key", key).want(c.status)
			first := s.call("POST", c.path, c.correct, "Idempotency-Key", key)
			if first.status/100 != 2 {
				t.Errorf("%s after %s: %d %s", c.path, again.body, first.status, first.body)
			}
			s.call("POST", c.path, c.refused, "Idempotency-Key", key).want(422)
		}
	})
}
