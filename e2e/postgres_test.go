package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/sink"
	"steward/internal/db/dbtest"
	"steward/internal/waittest"
)

// pooled returns an installation, not started yet, whose database is behind PgBouncer in transaction
// mode.
func pooled(t *testing.T, args ...string) *installation.Steward {
	s := installation.Prepare(t, "", args...)
	s.Database = dbtest.PgBouncer(t, dbtest.Postgres(t), "transaction")
	return s
}

// TestReplicasBehindPgBouncer runs two replicas with more clients than PgBouncer has connections. No
// request fails, and what one replica wrote the other one reads and delivers.
func TestReplicasBehindPgBouncer(t *testing.T) {
	t.Parallel()
	const clients, rounds = 8, 15
	s := pooled(t, "--database-pooler", "transaction")
	s.Start()
	replicas := []*installation.Steward{s, s.Replica()}
	k := sink.New(t)
	h := s.NewHook("orders")
	s.NewDestination(h, k.URL+"/a")
	work := func(client int) error {
		at, other := replicas[client%2], replicas[(client+1)%2]
		for i := range rounds {
			thread := fmt.Sprintf("/thread/t%d-%d", client, i)
			for _, step := range []struct {
				s            *installation.Steward
				method, path string
				body         any
			}{
				{at, "POST", h.Path, object{"n": i}},
				{at, "PUT", thread, object{"project_id": "prj_a", "metadata": object{"n": i}}},
				{other, "GET", thread, nil},
				{other, "GET", "/webhook/receipt-list/" + h.ID + "?limit=5", nil},
				{other, "PUT", thread, object{"metadata": object{"n": i + 1}}},
			} {
				r, err := step.s.Try(step.method, step.path, step.body)
				if err != nil {
					return err
				}
				if r.Status != 200 {
					return fmt.Errorf("%s %s: %d %s", step.method, step.path, r.Status, r.Body)
				}
			}
		}
		return nil
	}
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			if err := work(client); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	k.Wait("/a", clients*rounds)
	for _, r := range replicas {
		if n := r.Total("/webhook/receipt-list/" + h.ID + "?limit=1"); n != fmt.Sprint(clients*rounds) {
			t.Errorf("%s receipts", n)
		}
	}
	made := s.Call("POST", "/cli/apikey", object{"name": "short-lived"}).Want(201)
	key := replicas[1].As(made.Text("value"))
	key.Call("GET", "/webhook/list", nil).Want(200)
	s.Call("DELETE", "/cli/apikey/"+made.Text("id"), nil).Want(204)
	waittest.Until(t, "the other replica to refuse the key", func() (int, bool) {
		status := key.Call("GET", "/webhook/list", nil).Status
		return status, status == 401
	})
}

func TestUnnamedPoolerIsRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	out, err := pooled(t).Serve().CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--database-pooler") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestFrozenDatabaseEndsRequests has PostgreSQL hang. Requests end while it does, and succeed again
// afterwards.
func TestFrozenDatabaseEndsRequests(t *testing.T) {
	t.Parallel()
	server := dbtest.NewServer(t)
	s := installation.Prepare(t, "")
	s.Database = server.URL
	s.Start()
	h := s.NewHook("orders")
	requests := []struct {
		method, path string
		body         any
	}{
		{"GET", "/webhook/list", nil},
		{"GET", "/thread?limit=1", nil},
		{"PUT", "/thread/t1", object{"project_id": "prj_a"}},
		{"POST", h.Path, object{}},
	}
	thaw := server.Freeze()
	began := time.Now()
	var all sync.WaitGroup
	for _, q := range requests {
		all.Go(func() {
			r, err := s.Try(q.method, q.path, q.body)
			if err != nil {
				t.Error(err)
				return
			}
			if r.Status != 503 || r.Header.Get("Retry-After") == "" {
				t.Errorf("%s %s: %d %s", q.method, q.path, r.Status, r.Body)
			}
		})
	}
	all.Wait()
	t.Logf("all requests ended after %v", time.Since(began).Round(time.Second))
	thaw()
	for _, q := range requests {
		waittest.Until(t, q.method+" "+q.path, func() (string, bool) {
			r := s.Call(q.method, q.path, q.body)
			return string(r.Body), r.Status == 200
		})
	}
}
