package e2e

import (
	"strings"
	"testing"

	"steward/internal/waittest"
)

// status is the response of GET /status.
type status struct {
	Version  string
	Replicas int
	Database struct {
		Engine string
		OK     bool
	}
	Regions []struct {
		Region  string
		Engines map[string]struct {
			Engine, Error string
			OK            bool
		}
	}
	Webhooks struct {
		Pending     int
		OldestDueAt *string `json:"oldest_due_at"`
		Failing     []struct {
			WebhookID     string `json:"webhook_id"`
			DestinationID string `json:"destination_id"`
			Host          string
			Count         int
			LastError     string `json:"last_error"`
		}
	}
}

func (s *steward) status() (got status) {
	s.t.Helper()
	s.call("GET", "/status", nil).want(200).decode(&got)
	return got
}

func TestStatusShowsEnginesAndFailingDestinations(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		h := s.hook("orders")
		id, _ := s.destination(h, "http://127.0.0.1:1/secret", "max_retries", 1)
		var got status
		waittest.True(t, "a database that answers within a second", func() bool {
			got = s.status()
			return got.Database.OK
		})
		if got.Version == "" || got.Replicas != 1 || !got.Database.OK || len(got.Regions) != 1 || got.Webhooks.Pending != 0 {
			t.Errorf("%+v", got)
		}
		for _, kind := range []string{"s3", "db", "kv"} {
			if e := got.Regions[0].Engines[kind]; !e.OK || e.Engine == "" {
				t.Errorf("%s: %+v", kind, e)
			}
		}
		s.ingest(h, "x")
		waittest.True(t, "the destination to fail", func() bool {
			got = s.status()
			return got.Database.OK && len(got.Webhooks.Failing) == 1
		})
		f := got.Webhooks.Failing[0]
		if f.WebhookID != h.ID || f.DestinationID != id || f.Host != "127.0.0.1:1" || f.Count < 1 ||
			!strings.Contains(f.LastError, "could not be reached") {
			t.Errorf("%+v", f)
		}
		sdk := s.call("GET", "/sdk/status", nil).want(200)
		if sdk.get("success") != true || sdk.get("data.version") != got.Version {
			t.Errorf("SDK face: %s", sdk.body)
		}
		other := s.secondOrganization().status()
		if other.Webhooks.Pending != 0 || len(other.Webhooks.Failing) != 0 || other.Webhooks.OldestDueAt != nil {
			t.Errorf("another organization sees %+v", other.Webhooks)
		}
	})
}

func TestStatusCountsReplicas(t *testing.T) {
	t.Parallel()
	s := start(t, "postgres")
	r := s.replica()
	waittest.True(t, "both processes", func() bool { return s.status().Replicas == 2 && r.status().Replicas == 2 })
	r.stop()
	if n := s.status().Replicas; n != 1 {
		t.Errorf("%d replicas after one was stopped", n)
	}
}

func TestDestinationTestAnswersAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		id, _ := s.destination(h, k.URL+"/tested", "disabled", true)
		path := "/webhook/destination-test/" + h.ID + "/" + id
		for range 2 { // the second one gets the first answer again
			got := s.call("POST", path, nil, "Idempotency-Key", "once").want(200)
			if got.get("status") != 200.0 || got.get("error") != nil {
				t.Errorf("%s", got.body)
			}
		}
		if n := k.count("/tested"); n != 1 {
			t.Errorf("%d requests", n)
		}
		sdk := s.call("POST", "/sdk"+path, object{}).want(200)
		if sdk.get("data.status") != 200.0 {
			t.Errorf("SDK face: %s", sdk.body)
		}
		own, _ := s.destination(h, s.URL+"/webhook/list")
		refused := s.call("POST", "/webhook/destination-test/"+h.ID+"/"+own, nil).want(200)
		if reason, _ := refused.get("error").(string); !strings.Contains(reason, "not allowed") || refused.get("status") != nil {
			t.Errorf("a test of the server itself: %s", refused.body)
		}
		if n := s.total("/webhook/receipt-list/" + h.ID); n != "0" {
			t.Errorf("%s receipts were stored", n)
		}
	})
}
