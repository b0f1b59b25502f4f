package webhook

import (
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/stamp"
	"steward/internal/web"
)

// TestLengths: a list that may still grow is counted each time; that of a time long past is remembered for a minute.
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
			page, err := h.store.Receipts(as(alice), "org_a", w.ID, f, web.Paging{Limit: 1})
			must(t, err)
			if page.Total != want || len(page.Items) != 1 {
				t.Errorf("%d of %d, want %d", len(page.Items), page.Total, want)
			}
		}
		wants(open, 2)
		wants(past, 2)
		h.accept(w, alice, "c")
		wants(open, 3)
		wants(past, 2)
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`DELETE FROM webhook_receipts WHERE id = (SELECT MIN(id) FROM webhook_receipts)`)
			return err
		}))
		wants(open, 2)
		wants(past, 2)
		h.clock.advance(2 * time.Minute)
		wants(past, 1)
		wants(Filter{}, 3) // as the totals say: this was not retention
	})
}
