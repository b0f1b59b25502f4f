package e2e

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

// TestIdempotencyKeyHoldsOverRestartAndReplicas repeats a request whose response has a secret.
func TestIdempotencyKeyHoldsOverRestartAndReplicas(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		body := object{"name": "once"}
		first := s.Call("POST", "/cli/apikey", body, "Idempotency-Key", "a-1").Want(201)
		repeat := func(what string, s *installation.Steward) {
			t.Helper()
			again := s.Call("POST", "/cli/apikey", body, "Idempotency-Key", "a-1").Want(201)
			if string(again.Body) != string(first.Body) {
				t.Fatalf("%s: got %s, want %s", what, again.Body, first.Body)
			}
		}
		repeat("at once", s)
		s.Call("POST", "/cli/apikey", object{"name": "other"}, "Idempotency-Key", "a-1").Want(422)
		s.Kill()
		s.Start()
		repeat("after a restart", s)
		if s.Database != "" {
			repeat("on a replica", s.Replica())
		}
		var keys []any
		s.Call("GET", "/cli/apikey", nil).Want(200).Decode(&keys)
		if len(keys) != 2 {
			t.Fatalf("%d keys, want the root key and one more", len(keys))
		}
	})
}

// TestConcurrentRepeatsTakeEffectOnce repeats requests with effects in the database and elsewhere, on
// PostgreSQL over two replicas.
func TestConcurrentRepeatsTakeEffectOnce(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		replicas := []*installation.Steward{s, s}
		if s.Database != "" {
			replicas[1] = s.Replica()
		}
		region := "/resource/" + s.OrgID + "/local"
		repeatAtOnce(t, replicas, "/cli/project", object{"name": "one"})
		repeatAtOnce(t, replicas, region, object{"resources": []object{{"type": "s3"}, {"type": "kv"}}})
		// An embedded database is served by the replica that has created it.
		repeatAtOnce(t, replicas[:1], region, object{"resources": []object{{"type": "db", "name": "shop"}}})
		repeatAtOnce(t, replicas[:1], region+"/shop/query", object{"query": "CREATE TABLE once (a)"})
		repeatAtOnce(t, replicas[:1], region+"/shop/rotate?type=db", nil)
	})
}

// repeatAtOnce sends a request 16 times at once, with the same key, and checks that all get the same.
func repeatAtOnce(t *testing.T, replicas []*installation.Steward, path string, body any) {
	t.Helper()
	key := rand.Text()
	responses := make([]string, 16)
	var clients sync.WaitGroup
	for i := range responses {
		clients.Go(func() {
			for range 10 { // on a slow machine a repeat may wait for too long
				r, err := replicas[i%len(replicas)].Try("POST", path, body, "Idempotency-Key", key)
				if err != nil {
					t.Error(err)
					return
				}
				responses[i] = fmt.Sprint(r.Status, string(r.Body))
				if r.Status != 503 {
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
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k := sink.New(t)
		arrived := make(chan bool, 10)
		k.Handle("/slow", func(_ http.ResponseWriter, r *http.Request, n int) {
			arrived <- true
			if n == 1 {
				<-r.Context().Done()
			}
		})
		hook := s.Call("POST", "/webhook/create", object{"name": "a"}).Want(201).Text("id")
		destination := s.Call("POST", "/webhook/destination-create/"+hook,
			object{"type": "url", "config": object{"url": k.URL + "/slow", "timeout_seconds": 60}}).Want(201).Text("id")
		test := "/webhook/destination-test/" + hook + "/" + destination
		go func() { _, _ = s.Try("POST", test, nil, "Idempotency-Key", "k") }()
		waittest.Receive(t, "the test to arrive", arrived)
		s.Kill()
		s.Start()
		s.Call("POST", test, nil, "Idempotency-Key", "k").Want(200)
		waittest.Receive(t, "the test to arrive again", arrived)
	})
}

// TestFailedAnswerFreesItsKey corrects requests that were refused, and sends them with the same key.
func TestFailedAnswerFreesItsKey(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		region := "/resource/" + s.OrgID + "/local"
		database := func(name string) object { return object{"resources": []object{{"type": "db", "name": name}}} }
		s.Call("POST", region, database("taken")).Want(201)
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
			s.Call("POST", c.path, c.refused, "Idempotency-Key", key).Want(c.status)
			again := s.Call("POST", c.path, c.refused, "Idempotency-Key", key).Want(c.status)
			first := s.Call("POST", c.path, c.correct, "Idempotency-Key", key)
			if first.Status/100 != 2 {
				t.Errorf("%s after %s: %d %s", c.path, again.Body, first.Status, first.Body)
			}
			s.Call("POST", c.path, c.refused, "Idempotency-Key", key).Want(422)
		}
	})
}
