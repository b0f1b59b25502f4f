package webhook

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/webhooktest"
)

// failed makes a delivery that has failed for good, without a worker.
func (h *fixture) failed() (w Webhook, to Destination, d Delivery) {
	h.t.Helper()
	w, _ = h.webhook(alice)
	to = h.destination(alice, w.ID, `{"url": "http://127.0.0.1:1"}`)
	h.accept(w, alice, "x")
	taken, _ := h.store.claim(h.t, to.ID, 1)
	_, _, err := h.store.Finish(h.t.Context(), []queue.Result{{Row: taken[0], At: taken[0].Date, Error: "x", Final: true}})
	must(h.t, err)
	return w, to, pendingDelivery(taken[0])
}

// TestRetryRefuses what could not be sent: nothing is added then, and the answer says why.
func TestRetryRefuses(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		refused := func(w Webhook, failed Delivery, why string) {
			t.Helper()
			_, err := h.store.Retry(as(alice), "org_a", w.ID, failed.ID)
			if errs.KindOf(err) != errs.Conflict || !strings.Contains(err.Error(), why) {
				t.Errorf("got %v, want %s", err, why)
			}
			if n := len(h.deliveries(alice, w.ID, Filter{})); n != 1 {
				t.Errorf("%s: there are %d deliveries", why, n)
			}
		}
		w, to, failed := h.failed()
		off := config(t, `{"url": "http://127.0.0.1:1", "disabled": true}`)
		_, err := h.store.UpdateDestination(as(alice), DestinationRef{"org_a", w.ID, to.ID}, &off, page.IfMatch{})
		must(t, err)
		refused(w, failed, "is disabled")
		must(t, h.store.DeleteDestination(as(alice), DestinationRef{"org_a", w.ID, to.ID}, page.IfMatch{}))
		refused(w, failed, "was deleted")
		w, _, failed = h.failed()
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`DELETE FROM webhook_receipts WHERE substr(key, 1, 26) = $1`, bare(w.ID))
			return err
		}))
		refused(w, failed, "no longer kept")
	})
}

// TestIDsOfOtherKinds: rows are found by ULIDs, but an id with another prefix is none of theirs.
func TestIDsOfOtherKinds(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _, failed := h.failed()
		_, err := h.store.Receipt(as(alice), "org_a", w.ID, failed.ReceiptID)
		must(t, err)
		for _, wrong := range []string{"whdv_" + bare(failed.ReceiptID), "x" + failed.ReceiptID, bare(failed.ReceiptID), ""} {
			_, err := h.store.Receipt(as(alice), "org_a", w.ID, wrong)
			mustBe(t, err, errs.NotFound)
		}
		for _, wrong := range []string{"whrc_" + bare(failed.ID), "x" + failed.ID, bare(failed.ID), ""} {
			_, err := h.store.Retry(as(alice), "org_a", w.ID, wrong)
			mustBe(t, err, errs.NotFound)
		}
		_, err = h.store.Retry(as(alice), "org_a", w.ID, failed.ID)
		must(t, err)
	})
}

// TestRetriesAtOnce: of two who ask for it at the same time the later waits, and is told of the one
// attempt that was added. SQLite has one writer, so this is about PostgreSQL.
func TestRetriesAtOnce(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	h := newFixture(t, d)
	w, _, failed := h.failed()
	retry := func() (again Delivery) {
		again, err := h.store.Retry(as(alice), "org_a", w.ID, failed.ID)
		if err != nil {
			t.Error(err)
		}
		return again
	}
	later := make(chan Delivery, 1)
	h.store.Audit.Now = func() time.Time { // the first one has written, and not committed
		h.store.Audit.Now = h.clock.now
		go func() { later <- retry() }()
		eventually(t, "the other one waits", func() (waits bool) {
			must(t, d.Read(t.Context()).Row(`SELECT count(*) > 0 FROM pg_locks JOIN pg_stat_activity USING (pid)
				WHERE NOT granted AND datname = current_database()`).Scan(&waits))
			return waits
		})
		return h.clock.now()
	}
	first := retry()
	if told := <-later; told.ID != first.ID {
		t.Errorf("one was told of %s, the other of %s", first.ID, told.ID)
	}
	if n := len(h.deliveries(alice, w.ID, Filter{Status: Pending})); n != 1 {
		t.Errorf("%d attempts wait", n)
	}
	webhooktest.SumsHold(t, h.db, "org_a")
}

// TestEveryChange is audited, and made only under the condition that came with it.
func TestEveryChange(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	w, to, failed := h.failed()
	ctx, none, other := as(alice), page.IfMatch{}, page.IfMatch{IfMatch: `"99"`}
	c := config(t, `{"url": "http://127.0.0.1:1"}`)
	for _, match := range []page.IfMatch{other, none} {
		_, up := h.store.UpdateDestination(ctx, DestinationRef{"org_a", w.ID, to.ID}, &c, match)
		_, name := h.update(alice, w.ID, Patch{Name: page.Some("x")}, match.IfMatch)
		_, _, rotated := h.store.Rotate(ctx, "org_a", w.ID, match)
		if match == none {
			_, err := h.store.Retry(ctx, "org_a", w.ID, failed.ID)
			must(t, err)
		}
		gone := h.store.DeleteDestination(ctx, DestinationRef{"org_a", w.ID, to.ID}, match)
		deleted := h.store.Delete(ctx, "org_a", w.ID, match)
		for _, err := range []error{up, name, rotated, gone, deleted} {
			if match == none {
				must(t, err)
			} else {
				mustBe(t, err, errs.PreconditionFailed)
			}
		}
	}
	want := []string{
		"webhook.create", "webhook.destination-create", "webhook.destination-update", "webhook.update", "webhook.rotate-url",
		"webhook.delivery-retry", "webhook.destination-delete", "webhook.delete",
	}
	if diff := cmp.Diff(want, h.audit.Read("action")); diff != "" {
		t.Errorf("audit -want +got:\n%s", diff)
	}
}
