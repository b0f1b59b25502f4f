package webhook

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
	"steward/internal/stamp"
)

// TestLengths: what may still grow is counted each time; what is long past is remembered for a minute.
func TestLengths(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newHouse(t, d)
		w, _ := h.webhook(alice)
		start := stamp.Of(h.clock.now())
		h.accept(w, alice, "a", "b")
		h.clock.advance(time.Hour)
		open, past := Filter{Since: &start}, Filter{Since: &start, Until: new(start.Add(time.Minute))}
		wants := func(f Filter, want int64) {
			t.Helper()
			result, err := h.store.Receipts(as(alice), "org_a", w.ID, f, page.Paging{Limit: 1})
			must(t, err)
			if result.Total != want || len(result.Items) != 1 {
				t.Errorf("%d of %d, want %d", len(result.Items), result.Total, want)
			}
		}
		wants(open, 2)
		wants(past, 2)
		h.accept(w, alice, "c")
		wants(open, 3)
		wants(past, 2)
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`DELETE FROM webhook_receipts WHERE key = (SELECT MIN(key) FROM webhook_receipts)`)
			return err
		}))
		wants(open, 3)
		wants(past, 2)
		h.clock.advance(2 * time.Minute)
		wants(open, 2)
		wants(past, 1)
		wants(Filter{}, 3) // as the totals say: this was not retention
	})
}

// TestLengthOfAnyWindow: a window is counted in parts, some of them remembered, which meet without a gap and do not overlap; what comes
// meanwhile is counted at once.
func TestLengthOfAnyWindow(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newHouse(t, d)
		w, _ := h.webhook(alice)
		start := stamp.Of(h.clock.now())
		var dates []stamp.Time
		add := func() {
			h.accept(w, alice, "x")
			dates = append(dates, stamp.Of(h.clock.now()))
			h.clock.advance(9500 * time.Millisecond)
		}
		for range 60 {
			add()
		}
		end := rapid.Ptr(rapid.Custom(func(rt *rapid.T) stamp.Time {
			return start + stamp.Time(rapid.Int64Range(-1000, 800_000).Draw(rt, "ms")*1000)
		}), true)
		rapid.Check(t, func(rt *rapid.T) {
			if rapid.IntRange(0, 4).Draw(rt, "more") == 0 && len(dates) < 90 {
				add()
			}
			f := Filter{Since: end.Draw(rt, "since"), Until: end.Draw(rt, "until")}
			var want int64
			for _, date := range dates {
				if (f.Since == nil || date >= *f.Since) && (f.Until == nil || date < *f.Until) {
					want++
				}
			}
			result, err := h.store.Receipts(as(alice), "org_a", w.ID, f, page.Paging{Limit: 100})
			if err != nil || result.Total != want || int64(len(result.Items)) != want {
				rt.Fatalf("%d of %d, %v, want %d", len(result.Items), result.Total, err, want)
			}
		})
	})
}

// TestLengthByStatus: deliveries end at any age and in any order, and every window knows at once how many have.
func TestLengthByStatus(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newHouse(t, d)
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://127.0.0.1:1"}`)
		start := stamp.Of(h.clock.now())
		var all []*task
		states := map[string]Status{}
		rapid.Check(t, func(rt *rapid.T) {
			for range rapid.IntRange(0, 3).Draw(rt, "new") {
				h.accept(w, alice, "x")
				h.clock.advance(time.Duration(rapid.IntRange(1, 300).Draw(rt, "seconds")) * time.Second)
			}
			ready, _ := h.store.claim(t, to.ID, nil, 1000)
			for _, task := range ready {
				if states[task.ID] == "" {
					all, states[task.ID] = append(all, task), Pending
				}
				if rapid.IntRange(0, 2).Draw(rt, "ends") == 0 {
					r, state := Result{Delivery: &task.Delivery, At: stamp.Of(h.clock.now()), Final: true}, Success
					if rapid.Bool().Draw(rt, "fails") {
						r.Error, state = "x", Failed
					}
					_, err := h.store.Finish(t.Context(), []Result{r})
					must(t, err)
					states[task.ID] = state
				}
			}
			since := start + stamp.Time(rapid.Int64Range(-60, 10_000).Draw(rt, "since")*1_000_000)
			for _, state := range []Status{Pending, Success, Failed} {
				var want int64
				for _, task := range all {
					if states[task.ID] == state && task.Date >= since {
						want++
					}
				}
				result, err := h.store.Deliveries(as(alice), "org_a", w.ID, Filter{Since: &since, Status: state}, pageOf(1000))
				if err != nil || result.Total != want || int64(len(result.Items)) != want {
					rt.Fatalf("%s: %d of %d, %v, want %d", state, len(result.Items), result.Total, err, want)
				}
			}
		})
	})
}
