package webhook

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/webhook/queue"
)

// failEach ends n due attempts of a destination as failed; their retries wait.
func (h *fixture) failEach(to Destination, n int) {
	h.t.Helper()
	rows, _ := h.store.claim(h.t, to.ID, n)
	if len(rows) != n {
		h.t.Fatalf("%d attempts are due, want %d", len(rows), n)
	}
	var results []queue.Result
	for _, d := range rows {
		results = append(results, queue.Result{Row: d, At: stamp.Of(h.clock.now()), Error: "the destination answered 503", MaxRetries: 8})
	}
	_, _, err := h.store.Finish(h.t.Context(), results)
	must(h.t, err)
}

// succeedEach ends up to n due attempts of a destination, and returns how many.
func (h *fixture) succeedEach(to Destination, n int) int {
	h.t.Helper()
	rows, _ := h.store.claim(h.t, to.ID, n)
	var results []queue.Result
	for _, d := range rows {
		results = append(results, queue.Result{Row: d, At: stamp.Of(h.clock.now())})
	}
	_, _, err := h.store.Finish(h.t.Context(), results)
	must(h.t, err)
	return len(rows)
}

// waiting makes a destination with n events that wait for a retry.
func (h *fixture) waiting(c *auth.Caller, w Webhook, n int) Destination {
	h.t.Helper()
	to := h.destination(c, w.ID, `{"url": "http://sink.test/orders?token=secret"}`)
	h.accept(w, c, numbered(n)...)
	h.failEach(to, n)
	return to
}

func (h *fixture) due(destinationID string) int {
	h.t.Helper()
	rows, err := h.store.Queue.Due(h.t.Context(), destinationID, queue.Portion{Limit: 1_000_000})
	must(h.t, err)
	return len(rows)
}

func (h *fixture) listed(c *auth.Caller, w Webhook, to Destination) *FailingState {
	h.t.Helper()
	all, err := h.store.Destinations(as(c), c.OrgID, w.ID)
	must(h.t, err)
	for _, d := range all {
		if d.ID == to.ID {
			return d.Failing
		}
	}
	h.t.Fatal("the destination is not listed")
	return nil
}

// TestDestinationFailsWhileRetriesWait has many events wait for a retry. All places say that the
// destination is failing, also after a later event has succeeded, until the last chain has.
func TestDestinationFailsWhileRetriesWait(t *testing.T) {
	const n = 1257
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		other, _ := h.webhook(bob)
		h.destination(bob, other.ID, `{"url": "http://sink.test"}`)
		to := h.waiting(alice, w, n)
		since := stamp.Of(h.clock.now())
		check := func(when string, waiting int64) {
			t.Helper()
			health := h.health()
			if len(health.Failing) != 1 || health.FailingTotal != 1 {
				t.Fatalf("%s: %+v", when, health)
			}
			f := health.Failing[0]
			if f.Waiting != waiting || f.Count != waiting || f.Since != since || f.LastError != "the destination answered 503" ||
				f.NextDueAt == nil || f.Host != "sink.test" || f.Path != "/orders" || f.WebhookName != w.Name {
				t.Errorf("%s: %+v", when, f)
			}
			if got := h.listed(alice, w, to); got == nil || *got.NextDueAt != *f.NextDueAt || got.Waiting != waiting || got.Count != waiting {
				t.Errorf("%s: the list has %+v", when, got)
			}
			list := h.deliveries(alice, w.ID, Filter{Status: Waiting})
			if int64(len(list)) != waiting || list[0].DueAt == nil || list[0].Retries != 1 || list[0].ID < list[len(list)-1].ID {
				t.Errorf("%s: %d are listed as waiting: %+v", when, len(list), list[0])
			}
			one := h.deliveries(alice, w.ID, Filter{Status: Waiting, ReceiptID: list[0].ReceiptID})
			if len(one) != 1 || one[0].ID != list[0].ID || len(h.deliveries(alice, w.ID, Filter{Status: Waiting, DestinationID: to.ID})) != len(list) {
				t.Errorf("%s: of one receipt: %+v", when, one)
			}
		}
		check("at first", n)
		h.accept(w, alice, "succeeds")
		h.succeed(to, 1)
		check("after another one succeeded", n)
		h.clock.advance(time.Minute)
		h.succeed(to, n-1)
		check("all but one", 1)
		h.succeed(to, 1)
		if got := h.health(); len(got.Failing) != 0 || got.FailingTotal != 0 || h.listed(alice, w, to) != nil {
			t.Errorf("at the end: %+v", got)
		}
		if got, err := h.store.Health(t.Context(), bob.OrgID); err != nil || len(got.Failing) != 0 {
			t.Errorf("another organization: %+v, %v", got, err)
		}
		_, err := h.store.Deliveries(as(bob), bob.OrgID, w.ID, Filter{Status: Waiting}, page.Paging{Limit: 1})
		mustBe(t, err, errs.NotFound)
	})
}

// succeed ends n due attempts as successes.
func (h *fixture) succeed(to Destination, n int) {
	h.t.Helper()
	rows, _ := h.store.claim(h.t, to.ID, n)
	if len(rows) != n {
		h.t.Fatalf("%d attempts are due, want %d", len(rows), n)
	}
	var results []queue.Result
	for _, d := range rows {
		results = append(results, queue.Result{Row: d, At: stamp.Of(h.clock.now())})
	}
	_, _, err := h.store.Finish(h.t.Context(), results)
	must(h.t, err)
}

// TestRetriedChainCountsOnce retries a delivery of a chain that has failed for good.
func TestRetriedChainCountsOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://127.0.0.1:1"}`)
		h.accept(w, alice, "a", "b")
		rows, _ := h.store.claim(t, to.ID, 2)
		_, _, err := h.store.Finish(t.Context(), []queue.Result{
			{Row: rows[0], At: rows[0].Date, Error: "x"}, {Row: rows[1], At: rows[1].Date, Error: "x"},
		})
		must(t, err)
		if f := h.health().Failing; len(f) != 1 || f[0].Count != 2 || f[0].Waiting != 0 {
			t.Fatalf("%+v", f)
		}
		_, err = h.store.Retry(as(alice), alice.OrgID, w.ID, rows[0].DeliveryID())
		must(t, err)
		if f := h.health().Failing; len(f) != 1 || f[0].Count != 2 || f[0].Waiting != 1 {
			t.Errorf("%+v", f)
		}
	})
}

func (h *fixture) recoverDestination(c *auth.Caller, webhookID, destinationID string, body *RecoverRequest) (int64, error) {
	got, err := h.http.RecoverDestination(as(c), &struct {
		DestinationPath
		Body *RecoverRequest
	}{DestinationPath{Path{webhookID}, destinationID}, body})
	return got.Recovered, err
}

// TestRecoverMakesAllWaitingAttemptsDue recovers a destination with more attempts than fit into a batch,
// twice. The rest is made due by another process, of which the first may have died.
func TestRecoverMakesAllWaitingAttemptsDue(t *testing.T) {
	const n = 2*queue.RecoverBatch + 257
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		to := h.waiting(alice, w, n)
		beside := h.waiting(alice, w, 1)
		// Of the first destination one more is due, which is not waiting.
		got, err := h.recoverDestination(alice, w.ID, to.ID, nil)
		if err != nil || got != n {
			t.Fatalf("%d, %v", got, err)
		}
		if due := h.due(to.ID); due != queue.RecoverBatch+1 {
			t.Errorf("%d are due after the request", due)
		}
		// What fails again meanwhile waits for its retry.
		h.clock.advance(time.Second)
		h.failEach(to, 100)
		again := sameStore(h.store, "rep_2")
		succeeded := 0
		for more := true; more; {
			more, err = again.Queue.ContinueRecovery(t.Context(), to.ID)
			must(t, err)
			if some, err := again.Queue.Recovering(t.Context(), ""); err != nil || (len(some) == 1) != more {
				t.Errorf("%v, %v, more: %v", some, err, more)
			}
			due := h.due(to.ID)
			if due > queue.RecoverBatch+1 {
				t.Errorf("%d are due", due)
			}
			succeeded += h.succeedEach(to, due)
		}
		if succeeded != n+1-100 {
			t.Errorf("%d have succeeded at the end", succeeded)
		}
		if due := h.due(beside.ID); due != 0 {
			t.Errorf("%d are due of another destination", due)
		}
		if got, err := h.recoverDestination(alice, w.ID, to.ID, nil); err != nil || got != 100 {
			t.Errorf("the second time: %d, %v", got, err)
		}
		if got, err := h.recoverDestination(alice, w.ID, to.ID, nil); err != nil || got != 0 {
			t.Errorf("the third time: %d, %v", got, err)
		}
		if actions := h.audit.Read("action"); actions[len(actions)-1] != "webhook.destination-recover" {
			t.Errorf("audit: %s", actions)
		}
	})
}

// TestRecoverAtARate spreads attempts over time, over the end of a batch.
func TestRecoverAtARate(t *testing.T) {
	const n = queue.RecoverBatch + 500
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
		h.accept(w, alice, numbered(n)...)
		rows, _ := h.store.claim(t, to.ID, n)
		var results []queue.Result
		for _, d := range rows {
			results = append(results, queue.Result{
				Row: d, At: stamp.Of(h.clock.now()), Error: "x", MaxRetries: 8, RetryAfter: time.Hour,
			})
		}
		_, _, err := h.store.Finish(t.Context(), results)
		must(t, err)
		got, err := h.recoverDestination(alice, w.ID, to.ID, &RecoverRequest{Rate: page.Some(int64(100))})
		if err != nil || got != n {
			t.Fatalf("%d, %v", got, err)
		}
		for steps, ended := 0, 0; ended < n; steps++ {
			_, err = h.store.Queue.ContinueRecovery(t.Context(), to.ID)
			must(t, err)
			if ended += h.succeedEach(to, n); ended != min(1+10*steps, n) {
				t.Fatalf("%d were due after %d steps", ended, steps)
			}
			h.clock.advance(100 * time.Millisecond)
		}
	})
}

// TestRecoverRefuses what is not there, disabled or malformed.
func TestRecoverRefuses(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		other, _ := h.webhook(alice)
		to := h.waiting(alice, w, 1)
		for name, test := range map[string]struct {
			caller            *auth.Caller
			hook, destination string
			rate              int64
			want              errs.Kind
		}{
			"foreign":           {bob, w.ID, to.ID, 1, errs.NotFound},
			"unknown":           {alice, w.ID, "whds_x", 1, errs.NotFound},
			"of another":        {alice, other.ID, to.ID, 1, errs.NotFound},
			"rate of zero":      {alice, w.ID, to.ID, 0, errs.Invalid},
			"rate of a million": {alice, w.ID, to.ID, 1_000_000, errs.Invalid},
		} {
			_, err := h.recoverDestination(test.caller, test.hook, test.destination, &RecoverRequest{Rate: page.Some(test.rate)})
			if errs.KindOf(err) != test.want {
				t.Errorf("%s: %v", name, err)
			}
		}
		if due := h.due(to.ID); due != 0 {
			t.Errorf("%d are due", due)
		}
		off := config(t, `{"url": "http://127.0.0.1:1", "disabled": true}`)
		_, err := h.store.UpdateDestination(as(alice), DestinationRef{alice.OrgID, w.ID, to.ID}, &off, page.IfMatch{})
		must(t, err)
		_, err = h.recoverDestination(alice, w.ID, to.ID, nil)
		mustBe(t, err, errs.Conflict)
	})
}

// TestRecoveryEndsWithItsDestination deletes a destination in the middle.
func TestRecoveryEndsWithItsDestination(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		to := h.waiting(alice, w, queue.RecoverBatch+1)
		_, err := h.recoverDestination(alice, w.ID, to.ID, nil)
		must(t, err)
		must(t, h.store.DeleteDestination(as(alice), DestinationRef{alice.OrgID, w.ID, to.ID}, page.IfMatch{}))
		more, err := h.store.Queue.ContinueRecovery(t.Context(), to.ID)
		if some, _ := h.store.Queue.Recovering(t.Context(), ""); more || err != nil || len(some) != 0 {
			t.Errorf("more: %v, %v, %v", more, err, some)
		}
	})
}

// TestRecoveredDestinationGetsEverything runs two schedulers, as two replicas do, of which one was asked.
func TestRecoveredDestinationGetsEverything(t *testing.T) {
	const n = queue.RecoverBatch + 300
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		var got atomic.Int64
		s := newSink(t, func(http.ResponseWriter, *http.Request) { got.Add(1) })
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, fmt.Sprintf(`{"url": %q, "concurrency": 50}`, s.URL))
		h.accept(w, alice, numbered(n)...)
		h.failEach(to, n)
		must(t, h.store.Queue.DropLeases(t.Context()))
		second := newFixture(t, d)
		second.clock = h.clock
		second.store.Now = h.clock.now
		second.store.Queue.Now = h.clock.now
		second.store.Queue.Owner = "rep_2"
		second.run()
		h.store.Queue.Wake = nil // this process sends nothing
		recovered, err := h.recoverDestination(alice, w.ID, to.ID, nil)
		if err != nil || recovered != n {
			t.Fatalf("%d, %v", recovered, err)
		}
		eventually(t, "all deliveries", func() bool { return len(h.deliveries(alice, w.ID, Filter{Status: Success})) == n })
		if got.Load() != n || len(h.health().Failing) != 0 {
			t.Errorf("%d requests for %d deliveries, %+v", got.Load(), n, h.health())
		}
	})
}
