package webhook

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/webhook/queue"
)

// end ends the attempts of a destination that are due: with an error, or "" for success.
func (h *fixture) end(to Destination, n int, reason string, maxRetries int) {
	h.t.Helper()
	rows, _ := h.store.claim(h.t, to.ID, 100)
	if len(rows) != n {
		h.t.Fatalf("%d attempts are due, want %d", len(rows), n)
	}
	var results []queue.Result
	for _, d := range rows {
		results = append(results, queue.Result{Row: d, At: stamp.Of(h.clock.now()), Error: reason, MaxRetries: maxRetries})
	}
	_, _, err := h.store.Finish(h.t.Context(), results)
	must(h.t, err)
}

// replayed has a receipt delivered to a destination again.
func (h *fixture) replayed(w Webhook, receiptID string, to Destination, replayID string) {
	h.t.Helper()
	must(h.t, h.db.Write(h.t.Context(), func(tx *db.Tx) error {
		item := Redelivery{ReceiptKey: rowKey(w.ID, receiptID), DestinationID: to.ID}
		return h.store.Redeliver(tx, Replay{alice.OrgID, w.ID, replayID}, Redeliveries{Items: []Redelivery{item}, Due: stamp.Of(h.clock.now())})
	}))
}

// failing returns what a webhook lists as failing, page by page, and checks the rest of the list.
func (h *fixture) failing(w Webhook, f Filter) (all []Delivery) {
	h.t.Helper()
	f.Status = Failing
	for p := (page.Paging{Limit: 1}); ; {
		result, err := h.store.Deliveries(as(alice), alice.OrgID, w.ID, f, p)
		must(h.t, err)
		all = append(all, result.Items...)
		if p.Cursor = result.Next; p.Cursor != "" {
			continue
		}
		if int(result.Total) != len(all) {
			h.t.Errorf("%d are listed of %d", len(all), result.Total)
		}
		for i, d := range all {
			if d.Status != Failed || !d.Failing || d.Error == nil || i > 0 && d.ID > all[i-1].ID {
				h.t.Errorf("%d: %+v", i, d)
			}
		}
		return all
	}
}

// TestFailingListsTheLastAttemptOfEachChain fails deliveries for good, for now, and until a retry. Another
// webhook and another organization fail as well.
func TestFailingListsTheLastAttemptOfEachChain(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		beside, _ := h.webhook(alice)
		foreign, _ := h.webhook(bob)
		h.waiting(alice, beside, 3)
		h.waiting(bob, foreign, 3)
		waits := h.destination(alice, w.ID, `{"url": "http://sink.test/waits"}`)
		ends := h.destination(alice, w.ID, `{"url": "http://sink.test/ends"}`)
		recovers := h.destination(alice, w.ID, `{"url": "http://sink.test/recovers"}`)
		works := h.destination(alice, w.ID, `{"url": "http://sink.test/works"}`)
		h.accept(w, alice, "before")
		if got := h.failing(w, Filter{}); len(got) != 0 {
			t.Errorf("before the first attempt: %+v", got)
		}
		h.clock.advance(time.Minute)
		since := stamp.Of(h.clock.now())
		receiptID := h.accept(w, alice, "order")[0]
		h.end(waits, 2, "the destination answered 503", 8)
		h.end(ends, 2, "the destination answered 400", 0)
		h.end(recovers, 2, "the destination answered 502", 8)
		h.end(works, 2, "", 8)
		for name, test := range map[string]struct {
			filter Filter
			want   int
		}{
			"all": {Filter{}, 6}, "waits": {Filter{DestinationID: waits.ID}, 2}, "works": {Filter{DestinationID: works.ID}, 0},
			"receipt": {Filter{ReceiptID: receiptID}, 3}, "both": {Filter{ReceiptID: receiptID, DestinationID: ends.ID}, 1},
			"since": {Filter{Since: &since}, 3}, "until": {Filter{Until: &since}, 3},
			"waits, since": {Filter{DestinationID: waits.ID, Since: &since}, 1},
			"ends, until":  {Filter{DestinationID: ends.ID, Until: &since}, 1},
		} {
			if got := h.failing(w, test.filter); len(got) != test.want {
				t.Errorf("%s: %d are listed, want %d", name, len(got), test.want)
			}
		}

		h.clock.advance(time.Minute)
		h.end(waits, 2, "the destination answered 504", 8)
		h.end(recovers, 2, "", 8)
		got := h.failing(w, Filter{})
		if len(got) != 4 {
			t.Fatalf("%d are listed after the retries: %+v", len(got), got)
		}
		for _, d := range got {
			if isWaiting := d.DestinationID == waits.ID; isWaiting != (d.NextDueAt != nil) || isWaiting != (d.Retries == 1) {
				t.Errorf("%+v", d)
			}
		}
		for _, d := range h.deliveries(alice, w.ID, Filter{Status: Failed, DestinationID: recovers.ID}) {
			if d.Failing || d.NextDueAt != nil {
				t.Errorf("it was delivered later: %+v", d)
			}
		}
	})
}

// TestFailingEndsWithALaterAttempt retries and replays a delivery that has failed for good. It is failing
// until an attempt has succeeded, and listed once.
func TestFailingEndsWithALaterAttempt(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
		receiptID := h.accept(w, alice, "order")[0]
		h.end(to, 1, "first", 0)
		expect := func(when, reason string, isDue bool) string {
			t.Helper()
			got := h.failing(w, Filter{})
			if len(got) != 1 || *got[0].Error != reason || (got[0].NextDueAt != nil) != isDue {
				t.Fatalf("%s: %+v", when, got)
			}
			return got[0].ID
		}
		last := expect("at first", "first", false)

		_, err := h.store.Retry(as(alice), alice.OrgID, w.ID, last)
		must(t, err)
		expect("before the retry", "first", true)
		h.end(to, 1, "second", 0)
		expect("after the retry", "second", false)

		h.clock.advance(time.Minute)
		h.replayed(w, receiptID, to, "whrp_1")
		expect("before the replay", "second", true)
		h.end(to, 1, "third", 0)
		last = expect("after the replay", "third", false)

		h.clock.advance(time.Minute)
		h.replayed(w, receiptID, to, "whrp_2")
		h.end(to, 1, "", 0)
		if got := h.failing(w, Filter{}); len(got) != 0 {
			t.Errorf("after the second replay: %+v", got)
		}
		// An attempt of the chain of before is the last one now.
		_, err = h.store.Retry(as(alice), alice.OrgID, w.ID, last)
		must(t, err)
		h.end(to, 1, "fourth", 0)
		expect("after the last retry", "fourth", false)
	})
}

// TestFailingEndsThoughClocksDiffer has a replica whose clock is late make the retry: its key is less than
// that of the first attempt.
func TestFailingEndsThoughClocksDiffer(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
		h.accept(w, alice, "order")
		rows, _ := h.store.claim(t, to.ID, 1)
		late := stamp.Of(h.clock.now().Add(-time.Minute))
		_, _, err := h.store.Finish(t.Context(), []queue.Result{{Row: rows[0], At: late, Error: "x", MaxRetries: 8}})
		must(t, err)
		if got := h.failing(w, Filter{}); len(got) != 1 {
			t.Errorf("after the first attempt: %+v", got)
		}
		h.end(to, 1, "", 8)
		if got := h.failing(w, Filter{}); len(got) != 0 {
			t.Errorf("after the retry: %+v", got)
		}
	})
}

// TestMigrationMarksWhatIsFailing has the migration find the marks again that finished attempts have set.
func TestMigrationMarksWhatIsFailing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		waits := h.destination(alice, w.ID, `{"url": "http://sink.test/waits"}`)
		recovers := h.destination(alice, w.ID, `{"url": "http://sink.test/recovers"}`)
		h.accept(w, alice, "one", "two")
		for range 2 {
			h.end(waits, 2, "x", 8)
			h.end(recovers, 2, "x", 8)
			h.clock.advance(time.Minute)
		}
		h.end(recovers, 2, "", 8)
		before := h.failing(w, Filter{})
		text, err := os.ReadFile("../db/migrations/0021_webhook_lists.sql")
		must(t, err)
		update := regexp.MustCompile(`(?s)UPDATE .*?;`).FindString(string(text))
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			if _, err := tx.Exec(`UPDATE webhook_deliveries SET failing = false`); err != nil {
				return err
			}
			_, err := tx.Exec(update)
			return err
		}))
		after := h.failing(w, Filter{})
		if diff := cmp.Diff(before, after, cmp.AllowUnexported(Delivery{})); diff != "" || len(after) != 2 {
			t.Errorf("%d are failing: %s", len(after), diff)
		}
	})
}

// TestReceiptsTellHowTheirDeliveriesStand has one receipt delivered at once, one after a failure, and one not
// at all, to several destinations, and then delivered again.
func TestReceiptsTellHowTheirDeliveriesStand(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		first := h.accept(w, alice, "first")[0] // without a destination
		works := h.destination(alice, w.ID, `{"url": "http://sink.test/works"}`)
		fails := h.destination(alice, w.ID, `{"url": "http://sink.test/fails"}`)
		second := h.accept(w, alice, "second")[0]
		want := func(what string, want map[string]DeliveryStates) {
			t.Helper()
			listed, err := h.store.Receipts(as(alice), alice.OrgID, w.ID, ReceiptFilter{}, page.Paging{Limit: 10})
			must(t, err)
			got := map[string]DeliveryStates{}
			for _, r := range listed.Items {
				got[r.ID] = *r.Deliveries
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", what, diff)
			}
			for state, count := range map[ReceiptState]func(DeliveryStates) int64{
				ReceiptSucceeded: func(s DeliveryStates) int64 { return s.Succeeded },
				ReceiptFailing:   func(s DeliveryStates) int64 { return s.Failing },
				ReceiptPending:   func(s DeliveryStates) int64 { return s.Pending },
				ReceiptFiltered:  func(s DeliveryStates) int64 { return s.Filtered },
			} {
				var in []string
				for _, receiptID := range []string{second, first} {
					if count(want[receiptID]) > 0 {
						in = append(in, receiptID)
					}
				}
				if ids := h.search(w, ReceiptFilter{State: state}, 1); !slices.Equal(ids, in) {
					t.Errorf("%s: %v are %s, want %v", what, ids, state, in)
				}
				if state == ReceiptFiltered {
					continue
				}
				var each []string
				for _, to := range []Destination{works, fails} {
					each = append(each, h.search(w, ReceiptFilter{State: state, DestinationID: to.ID}, 1)...)
				}
				if n := count(want[first]) + count(want[second]); int64(len(each)) != n {
					t.Errorf("%s: %v are %s by destination, want %d", what, each, state, n)
				}
			}
		}
		want("before the first attempt", map[string]DeliveryStates{first: {}, second: {Pending: 2}})
		h.end(works, 1, "", 8)
		h.end(fails, 1, "the destination answered 503", 8)
		want("while a retry waits", map[string]DeliveryStates{first: {}, second: {Succeeded: 1, Failing: 1}})
		h.clock.advance(time.Minute)
		h.end(fails, 1, "the destination answered 503", 1)
		want("after the last retry", map[string]DeliveryStates{first: {}, second: {Succeeded: 1, Failing: 1}})
		h.replayed(w, second, fails, "whrp_1")
		h.replayed(w, first, works, "whrp_1")
		want("while it is replayed", map[string]DeliveryStates{first: {Pending: 1}, second: {Succeeded: 1, Failing: 1}})
		h.end(fails, 1, "", 8)
		h.end(works, 1, "the destination answered 400", 0)
		want("after the replay", map[string]DeliveryStates{first: {Failing: 1}, second: {Succeeded: 2}})
	})
}

// TestDeliveriesTellWhatTheyDeliver lists deliveries of bodies of several kinds and sizes.
func TestDeliveriesTellWhatTheyDeliver(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "http://sink.test/works"}`)
		for body, preview := range map[string]string{
			"": "", `{"order": 1}`: `{"order": 1}`, "\xff\x00": "", "a" + strings.Repeat("ä", 1000): "a" + strings.Repeat("ä", 127),
			strings.Repeat("€", 1000): strings.Repeat("€", 85), "valid\xc3": "", strings.Repeat("x", 255) + "\xff" + "more": strings.Repeat("x", 255),
		} {
			receiptID := h.accept(w, alice, body)[0]
			for _, status := range []Status{"", Pending} { // the table, and the queue
				listed, err := h.store.Deliveries(as(alice), alice.OrgID, w.ID, Filter{Status: status}, page.Paging{Limit: 1})
				must(t, err)
				got := listed.Items[0]
				if got.ReceiptID != receiptID || got.Receipt == nil || got.Receipt.Size != int64(len(body)) || got.Receipt.Preview != preview {
					t.Errorf("%.20q: %+v", body, got.Receipt)
				}
			}
			h.clock.advance(time.Second)
		}
		_, err := d.Exec(t.Context(), `DELETE FROM webhook_receipts`)
		must(t, err)
		for _, got := range h.deliveries(alice, w.ID, Filter{}) {
			if got.Receipt != nil {
				t.Errorf("a receipt that is gone is shown: %+v", got.Receipt)
			}
		}
	})
}
