package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"steward/e2e/process"
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

func (s *steward) failing() []failing {
	s.t.Helper()
	var got struct{ Webhooks struct{ Failing []failing } }
	s.call("GET", "/status", nil).want(200).decode(&got)
	return got.Webhooks.Failing
}

// waiting makes a destination with n events that wait for a retry for an hour, until respond is set.
func (s *steward) waiting(k *sink, path string, n int) (h hook, destinationID string, respond *atomic.Bool) {
	s.t.Helper()
	respond = &atomic.Bool{}
	k.handle(path, func(w http.ResponseWriter, _ *http.Request, _ int) {
		if !respond.Load() {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	h = s.hook("orders" + path)
	destinationID, _ = s.destination(h, k.URL+path+"?token=secret", "concurrency", 50)
	var clients sync.WaitGroup
	for part := range 16 {
		clients.Go(func() {
			for i := part; i < n; i += 16 {
				s.ingest(h, fmt.Sprint(i))
			}
		})
	}
	clients.Wait()
	s.waitTotal(h, "waiting", n)
	return h, destinationID, respond
}

// waitTotal waits until so many deliveries have a status.
func (s *steward) waitTotal(h hook, status string, n int) {
	s.t.Helper()
	waittest.Until(s.t, fmt.Sprintf("%d deliveries that are %s", n, status), func() (string, bool) {
		got := s.total("/webhook/delivery-list/" + h.ID + "?status=" + status)
		return got, got == fmt.Sprint(n)
	})
}

func (s *steward) recoverDestination(h hook, destinationID string, body any) *response {
	s.t.Helper()
	return s.call("POST", "/webhook/destination-recover/"+h.ID+"/"+destinationID, body)
}

// TestDestinationIsRecoveredAfterKill has 1,257 events wait for a retry. All places show it; a request
// makes them due, the process is killed before it has come to the end, and the next one continues.
func TestDestinationIsRecoveredAfterKill(t *testing.T) {
	t.Parallel()
	const n = 1257
	var checks []func()
	for _, name := range process.Databases {
		s, k := start(t, name), newSink(t)
		h, id, respond := s.waiting(k, "/down", n)
		got := s.failing()
		if len(got) != 1 || got[0].Waiting != n || got[0].Count != n || got[0].Path != "/down" || got[0].WebhookName != "orders/down" ||
			got[0].NextDueAt == "" || got[0].LastError != "the destination answered 503" {
			t.Fatalf("%s: the status has %+v", name, got)
		}
		var listed []struct{ Failing failing }
		s.call("GET", "/webhook/destination-list/"+h.ID, nil).want(200).decode(&listed)
		if len(listed) != 1 || listed[0].Failing.Waiting != n || listed[0].Failing.NextDueAt != got[0].NextDueAt {
			t.Errorf("%s: the list has %+v", name, listed)
		}
		for _, status := range []string{"failed", "waiting"} {
			dry := s.call("POST", "/webhook/replay/"+h.ID, object{"since": "2026-01-01T00:00:00Z", "status": status, "dry_run": true})
			if dry.want(200).get("total") != float64(n) {
				t.Errorf("%s: a replay of %s would make %s", name, status, dry.body)
			}
		}
		other := s.secondOrganization()
		if len(other.failing()) != 0 {
			t.Errorf("%s: another organization sees %+v", name, other.failing())
		}
		other.recoverDestination(h, id, nil).want(404)
		for _, rate := range []any{0, 1001, -1, "1", 1.5} {
			s.recoverDestination(h, id, object{"rate": rate}).want(422)
		}
		respond.Store(true)
		if r := s.recoverDestination(h, id, nil).want(200); r.get("recovered") != float64(n) {
			t.Errorf("%s: %s", name, r.body)
		}
		s.kill()
		s.start()
		checks = append(checks, func() {
			s.waitTotal(h, "success", n)
			if got := s.failing(); len(got) != 0 {
				t.Errorf("%s: at the end %+v", name, got)
			}
			if r := s.recoverDestination(h, id, object{"rate": 1000}).want(200); r.get("recovered") != float64(0) {
				t.Errorf("%s: the second time: %s", name, r.body)
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
	one, k := start(t, "postgres"), newSink(t)
	h, id, respond := one.waiting(k, "/down", n)
	two := one.replica()
	respond.Store(true)
	if r := two.recoverDestination(h, id, object{}).want(200); r.get("recovered") != float64(n) {
		t.Errorf("%s", r.body)
	}
	one.waitTotal(h, "success", n)
	if got := k.count("/down"); got != 2*n {
		t.Errorf("%d requests were sent, want %d", got, 2*n)
	}
	one.call("PUT", "/webhook/destination-update/"+h.ID+"/"+id, object{"config": object{"url": k.URL, "disabled": true}}).want(200)
	two.recoverDestination(h, id, nil).want(409)
}
