package faults

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

// failing is a destination of the status.
type failing struct {
	WebhookName string `json:"webhook_name"`
	Path        string
	Count       int
	Waiting     int
	NextDueAt   string `json:"next_due_at"`
	LastError   string `json:"last_error"`
}

func failingDestinations(s *installation.Steward) []failing {
	s.T.Helper()
	var got struct{ Webhooks struct{ Failing []failing } }
	s.Call("GET", "/status", nil).Want(200).Decode(&got)
	return got.Webhooks.Failing
}

// addWaiting makes a destination with n events that wait for a retry for an hour, until respond is set.
func addWaiting(s *installation.Steward, k *sink.Sink, path string, n int) (h installation.Hook, destinationID string, respond *atomic.Bool) {
	s.T.Helper()
	respond = &atomic.Bool{}
	k.Handle(path, func(w http.ResponseWriter, _ *http.Request, _ int) {
		if !respond.Load() {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	h = s.NewHook("orders" + path)
	destinationID, _ = s.NewDestination(h, k.URL+path+"?token=secret", "concurrency", 50)
	var clients sync.WaitGroup
	for part := range 16 {
		clients.Go(func() {
			for i := part; i < n; i += 16 {
				s.Ingest(h, fmt.Sprint(i))
			}
		})
	}
	clients.Wait()
	waitTotal(s, h, "waiting", n)
	return h, destinationID, respond
}

// waitTotal waits until so many deliveries have a status.
func waitTotal(s *installation.Steward, h installation.Hook, status string, n int) {
	s.T.Helper()
	waittest.Until(s.T, fmt.Sprintf("%d deliveries that are %s", n, status), func() (string, bool) {
		got := s.Total("/webhook/delivery-list/" + h.ID + "?status=" + status)
		return got, got == fmt.Sprint(n)
	})
}

func recoverDestination(s *installation.Steward, h installation.Hook, destinationID string, body any) *installation.Response {
	s.T.Helper()
	return s.Call("POST", "/webhook/destination-recover/"+h.ID+"/"+destinationID, body)
}

// TestDestinationIsRecoveredAfterKill has 1,257 events wait for a retry. All places show it; a request
// makes them due, the process is killed before it has come to the end, and the next one continues.
func TestDestinationIsRecoveredAfterKill(t *testing.T) {
	t.Parallel()
	const n = 1257
	var checks []func()
	for _, name := range process.Databases {
		s, k := installation.Start(t, name), sink.New(t)
		h, id, respond := addWaiting(s, k, "/down", n)
		got := failingDestinations(s)
		if len(got) != 1 || got[0].Waiting != n || got[0].Count != n || got[0].Path != "/down" || got[0].WebhookName != "orders/down" ||
			got[0].NextDueAt == "" || got[0].LastError != "the destination answered 503" {
			t.Fatalf("%s: the status has %+v", name, got)
		}
		var listed []struct{ Failing failing }
		s.Call("GET", "/webhook/destination-list/"+h.ID, nil).Want(200).Decode(&listed)
		if len(listed) != 1 || listed[0].Failing.Waiting != n || listed[0].Failing.NextDueAt != got[0].NextDueAt {
			t.Errorf("%s: the list has %+v", name, listed)
		}
		for _, status := range []string{"failed", "waiting"} {
			dry := s.Call("POST", "/webhook/replay/"+h.ID, object{"since": "2026-01-01T00:00:00Z", "status": status, "dry_run": true})
			if dry.Want(200).Get("total") != float64(n) {
				t.Errorf("%s: a replay of %s would make %s", name, status, dry.Body)
			}
		}
		other := s.SecondOrganization()
		if len(failingDestinations(other)) != 0 {
			t.Errorf("%s: another organization sees %+v", name, failingDestinations(other))
		}
		recoverDestination(other, h, id, nil).Want(404)
		for _, rate := range []any{0, 1001, -1, "1", 1.5} {
			recoverDestination(s, h, id, object{"rate": rate}).Want(422)
		}
		respond.Store(true)
		if r := recoverDestination(s, h, id, nil).Want(200); r.Get("recovered") != float64(n) {
			t.Errorf("%s: %s", name, r.Body)
		}
		s.Kill()
		s.Start()
		checks = append(checks, func() {
			waitTotal(s, h, "success", n)
			if got := failingDestinations(s); len(got) != 0 {
				t.Errorf("%s: at the end %+v", name, got)
			}
			if r := recoverDestination(s, h, id, object{"rate": 1000}).Want(200); r.Get("recovered") != float64(0) {
				t.Errorf("%s: the second time: %s", name, r.Body)
			}
		})
	}
	for _, check := range checks {
		check() // leases of a killed process expire after 30 s
	}
}

// TestDestinationIsRecoveredByAnotherReplica asks the replica that does not hold the destination's lease.
func TestDestinationIsRecoveredByAnotherReplica(t *testing.T) {
	t.Parallel()
	const n = 1100
	one, k := installation.Start(t, "postgres"), sink.New(t)
	h, id, respond := addWaiting(one, k, "/down", n)
	two := one.Replica()
	respond.Store(true)
	if r := recoverDestination(two, h, id, object{}).Want(200); r.Get("recovered") != float64(n) {
		t.Errorf("%s", r.Body)
	}
	waitTotal(one, h, "success", n)
	if got := k.Count("/down"); got != 2*n {
		t.Errorf("%d requests were sent, want %d", got, 2*n)
	}
	one.Call("PUT", "/webhook/destination-update/"+h.ID+"/"+id, object{"config": object{"url": k.URL, "disabled": true}}).Want(200)
	recoverDestination(two, h, id, nil).Want(409)
}
