package webhook

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/webhook/queue"
)

func (h *fixture) health() Health {
	h.t.Helper()
	got, err := h.store.Health(h.t.Context(), "org_a")
	must(h.t, err)
	return got
}

// TestHealthFollowsAttempts sends to a destination that fails, and then recovers.
func TestHealthFollowsAttempts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		status := atomic.Int32{}
		status.Store(500)
		s := newSink(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) })
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "`+s.URL+`/secret-path?token=secret", "max_retries": 1}`)
		if got := h.health(); got.Pending != 0 || got.OldestDueAt != nil || len(got.Failing) != 0 {
			t.Errorf("at first: %+v", got)
		}
		h.accept(w, alice, "a", "b")
		if got := h.health(); got.Pending != 2 || got.OldestDueAt == nil || *got.OldestDueAt > stamp.Of(h.clock.now()) {
			t.Errorf("with two pending: %+v", got)
		}
		h.run()
		eventually(t, "two failures", func() bool { return len(h.deliveries(alice, w.ID, Filter{Status: Failed})) == 2 })
		got := h.health()
		if len(got.Failing) != 1 || got.Pending != 2 || *got.OldestDueAt <= stamp.Of(h.clock.now()) {
			t.Fatalf("after two failures: %+v", got)
		}
		f := got.Failing[0]
		if f.WebhookID != w.ID || f.DestinationID != to.ID || f.Host != strings.TrimPrefix(s.URL, "http://") || f.Count != 2 ||
			f.Path != "/secret-path" || f.WebhookName != "orders" || f.Waiting != 2 || *f.NextDueAt != *got.OldestDueAt ||
			!strings.Contains(f.LastError, "500") || f.Since > stamp.Of(h.clock.now()) {
			t.Errorf("%+v", f)
		}
		if other, err := h.store.Health(t.Context(), "org_b"); err != nil || other.Pending != 0 || len(other.Failing) != 0 {
			t.Errorf("another organization sees %+v, %v", other, err)
		}
		since := f.Since
		h.clock.advance(time.Minute)
		eventually(t, "the retries", func() bool { return len(h.deliveries(alice, w.ID, Filter{Status: Failed})) == 4 })
		if f := h.health().Failing; len(f) != 1 || f[0].Count != 2 || f[0].Waiting != 0 || f[0].NextDueAt != nil || f[0].Since != since {
			t.Errorf("after the retries: %+v", f)
		}
		status.Store(200)
		h.accept(w, alice, "c")
		eventually(t, "a success", func() bool { return len(h.deliveries(alice, w.ID, Filter{Status: Success})) == 1 })
		if got := h.health(); len(got.Failing) != 0 || got.Pending != 0 || got.OldestDueAt != nil {
			t.Errorf("after a success: %+v", got)
		}
	})
}

// TestHealthIsThatOfTheLastResults writes results of one transaction in all orders of success and
// failure.
func TestHealthIsThatOfTheLastResults(t *testing.T) {
	result := func(at int, reason string) queue.Result {
		return queue.Result{Row: queue.Row{DestinationID: "d"}, At: stamp.Time(at), Error: reason}
	}
	retried := func(at int, reason string) queue.Result {
		r := result(at, reason)
		r.MaxRetries = 1
		return r
	}
	for name, c := range map[string]struct {
		results []queue.Result
		want    streak
	}{
		"failures":             {[]queue.Result{result(2, "b"), result(1, "a")}, streak{failed: true, since: 1, lastError: "b", ended: 2}},
		"recovered":            {[]queue.Result{result(1, "a"), result(2, "")}, streak{succeeded: true}},
		"failing again":        {[]queue.Result{result(1, "a"), result(2, ""), result(3, "c")}, streak{true, true, 3, "c", 1}},
		"waiting":              {[]queue.Result{retried(1, "a"), result(2, "b")}, streak{failed: true, since: 1, lastError: "b", ended: 1}},
		"waiting nevertheless": {[]queue.Result{retried(1, "a"), result(2, "")}, streak{succeeded: true, failed: true, since: 1, lastError: "a"}},
		"not sent":             {[]queue.Result{{Row: queue.Row{DestinationID: "d"}, Error: "disabled", Final: true}}, streak{}},
		"not sent after a try": {
			[]queue.Result{result(1, "a"), {At: 2, Error: "disabled", Final: true}},
			streak{failed: true, since: 1, lastError: "a", ended: 1},
		},
	} {
		if got := streaks(c.results)["d"]; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestDestinationsThatAreDisabledOrDeletedDoNotFail(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		const to = `{"url": "http://127.0.0.1:1", "max_retries": 0}`
		disabled := h.destination(alice, w.ID, to)
		deleted := h.destination(alice, w.ID, to)
		h.run()
		h.accept(w, alice, "a")
		eventually(t, "two failing destinations", func() bool { return len(h.health().Failing) == 2 })
		off := config(t, `{"url": "http://127.0.0.1:1", "disabled": true}`)
		_, err := h.store.UpdateDestination(as(alice), DestinationRef{"org_a", w.ID, disabled.ID}, &off, page.IfMatch{})
		must(t, err)
		must(t, h.store.DeleteDestination(as(alice), DestinationRef{"org_a", w.ID, deleted.ID}, page.IfMatch{}))
		if got := h.health().Failing; len(got) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestFailingDestinationsAreBounded lists the newest ones of many, from their index.
func TestFailingDestinationsAreBounded(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		var w Webhook
		for i := range maxFailing + 5 {
			if i%maxDestinations == 0 {
				w, _ = h.webhook(alice)
			}
			to := h.destination(alice, w.ID, `{"url": "http://example.com"}`)
			must(t, d.Write(t.Context(), func(tx *db.Tx) error {
				return writeHealth(tx, []queue.Result{{Row: queue.Row{DestinationID: to.ID}, At: stamp.Time(i), Error: "x"}})
			}))
		}
		health := h.health()
		got := health.Failing
		if n, err := h.store.CountFailing(t.Context()); err != nil || n != maxFailing+5 {
			t.Errorf("%d destinations are failing: %v", n, err)
		}
		if health.FailingTotal != maxFailing+5 || len(got) != maxFailing || got[0].Since != maxFailing+4 || got[maxFailing-1].Since != 5 {
			t.Errorf("%d, %+v", len(got), got)
		}
	})
}
