package replicas

import (
	"fmt"
	"strings"
	"sync"
	"testing"

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
