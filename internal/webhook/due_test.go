package webhook

import (
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/stamp"
	"steward/internal/webhook/queue"
)

// dueOf returns when each delivery of a list is due, by its id; 0 if it has no such time.
func dueOf(all []Delivery) map[string]stamp.Time {
	due := map[string]stamp.Time{}
	for _, d := range all {
		due[d.ID] = 0
		if d.DueAt != nil {
			due[d.ID] = *d.DueAt
		}
	}
	return due
}

// TestPendingDeliveriesHaveDueAt: every list says when a pending delivery is due, and no list has
// the time of one that has ended.
func TestPendingDeliveriesHaveDueAt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://127.0.0.1:1"}`)
		receiptID := h.accept(w, alice, "x")[0]
		accepted := stamp.Of(h.clock.now())
		first, _ := h.store.claim(t, to.ID, 1)
		check := func(f Filter, want map[string]stamp.Time) {
			t.Helper()
			got := dueOf(h.deliveries(alice, w.ID, f))
			if len(got) != len(want) {
				t.Errorf("%+v: got %v, want %v", f, got, want)
			}
			for id, due := range want {
				if got[id] != due {
					t.Errorf("%+v: %s is due %v, want %v", f, id, got[id], due)
				}
			}
		}
		check(Filter{}, map[string]stamp.Time{first[0].DeliveryID(): accepted})
		check(Filter{Status: Pending}, map[string]stamp.Time{first[0].DeliveryID(): accepted})

		_, _, err := h.store.Finish(t.Context(), []queue.Result{{
			Row: first[0], At: accepted, Error: "x", MaxRetries: 3, RetryAfter: time.Hour,
		}})
		must(t, err)
		waiting := h.deliveries(alice, w.ID, Filter{Status: Pending})[0].ID
		later := accepted.Add(time.Hour)
		check(Filter{Status: Pending}, map[string]stamp.Time{waiting: later})
		check(Filter{Status: Failed}, map[string]stamp.Time{first[0].DeliveryID(): 0})
		for _, f := range []Filter{{}, {ReceiptID: receiptID}, {DestinationID: to.ID}} {
			check(f, map[string]stamp.Time{waiting: later, first[0].DeliveryID(): 0})
		}
		check(Filter{ReceiptID: receiptID, Status: Pending}, map[string]stamp.Time{waiting: later})
	})
}

// TestRetryTellsWhenItIsDue: the waiting attempt is due now; another retry leaves that time.
func TestRetryTellsWhenItIsDue(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _, failed := h.failed()
		h.clock.advance(time.Minute)
		now := stamp.Of(h.clock.now())
		retry := func() Delivery {
			t.Helper()
			next, err := h.store.Retry(as(alice), "org_a", w.ID, failed.ID)
			must(t, err)
			if next.DueAt == nil {
				t.Fatalf("got %+v without the time", next)
			}
			listed := dueOf(h.deliveries(alice, w.ID, Filter{Status: Pending}))
			if len(listed) != 1 || listed[next.ID] != *next.DueAt {
				t.Errorf("the answer says %v, the list %v", *next.DueAt, listed)
			}
			return next
		}
		added := retry()
		if *added.DueAt != now {
			t.Errorf("a new attempt is due %v, want %v", *added.DueAt, now)
		}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE webhook_queue SET due_at = $2 WHERE key = $1`, added.key, now.Add(time.Hour))
			return err
		}))
		h.clock.advance(time.Minute)
		moved := retry()
		if moved.ID != added.ID || *moved.DueAt != now.Add(time.Minute) {
			t.Errorf("the waiting attempt is due %v, want %v", *moved.DueAt, now.Add(time.Minute))
		}
		h.clock.advance(time.Minute)
		if again := retry(); *again.DueAt != *moved.DueAt {
			t.Errorf("an attempt that is due was moved from %v to %v", *moved.DueAt, *again.DueAt)
		}
	})
}
