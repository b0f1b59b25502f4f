package e2e

import (
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

func TestStatusShowsEnginesAndFailingDestinations(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		h := s.NewHook("orders")
		id, _ := s.NewDestination(h, "http://127.0.0.1:1/secret", "max_retries", 1)
		var got installation.Status
		waittest.True(t, "a database that answers within a second", func() bool {
			got = s.Status()
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
		s.Ingest(h, "x")
		waittest.True(t, "the destination to fail", func() bool {
			got = s.Status()
			return got.Database.OK && len(got.Webhooks.Failing) == 1
		})
		f := got.Webhooks.Failing[0]
		if f.WebhookID != h.ID || f.DestinationID != id || f.Host != "127.0.0.1:1" || f.Count < 1 ||
			!strings.Contains(f.LastError, "could not be reached") {
			t.Errorf("%+v", f)
		}
		sdk := s.Call("GET", "/sdk/status", nil).Want(200)
		if sdk.Get("success") != true || sdk.Get("data.version") != got.Version {
			t.Errorf("SDK face: %s", sdk.Body)
		}
		other := s.SecondOrganization().Status()
		if other.Webhooks.Pending != 0 || len(other.Webhooks.Failing) != 0 || other.Webhooks.OldestDueAt != nil {
			t.Errorf("another organization sees %+v", other.Webhooks)
		}
	})
}

func TestStatusCountsReplicas(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "postgres")
	r := s.Replica()
	waittest.True(t, "both processes", func() bool { return s.Status().Replicas == 2 && r.Status().Replicas == 2 })
	r.Stop()
	if n := s.Status().Replicas; n != 1 {
		t.Errorf("%d replicas after one was stopped", n)
	}
}

func TestDestinationTestAnswersAtOnce(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	k, h := sink.New(t), s.NewHook("orders")
	id, _ := s.NewDestination(h, k.URL+"/tested", "disabled", true)
	path := "/webhook/destination-test/" + h.ID + "/" + id
	for range 2 { // the second one gets the first answer again
		got := s.Call("POST", path, nil, "Idempotency-Key", "once").Want(200)
		if got.Get("status") != 200.0 || got.Get("error") != nil {
			t.Errorf("%s", got.Body)
		}
	}
	if n := k.Count("/tested"); n != 1 {
		t.Errorf("%d requests", n)
	}
	sdk := s.Call("POST", "/sdk"+path, object{}).Want(200)
	if sdk.Get("data.status") != 200.0 {
		t.Errorf("SDK face: %s", sdk.Body)
	}
	own, _ := s.NewDestination(h, s.URL+"/webhook/list")
	refused := s.Call("POST", "/webhook/destination-test/"+h.ID+"/"+own, nil).Want(200)
	if reason, _ := refused.Get("error").(string); !strings.Contains(reason, "not allowed") || refused.Get("status") != nil {
		t.Errorf("a test of the server itself: %s", refused.Body)
	}
	if n := s.Total("/webhook/receipt-list/" + h.ID); n != "0" {
		t.Errorf("%s receipts were stored", n)
	}
}
