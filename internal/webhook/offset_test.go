package webhook

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/webhook/queue"
)

// TestOffsetsDeepInAList compares pages by offset with the list as cursors show it.
func TestOffsetsDeepInAList(t *testing.T) {
	dbtest.Long(t)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
		const size = page.MaxSkipped + 200
		h.accept(w, alice, numbered(size)...)
		h.compareOffsets("receipts", size, func(ctx context.Context, p page.Paging) (ids []string, next page.Cursor, err error) {
			got, err := h.store.Receipts(ctx, alice.OrgID, w.ID, ReceiptFilter{}, p)
			for _, r := range got.Items {
				ids = append(ids, r.ID)
			}
			return ids, got.Next, err
		})
		check := func(f Filter) {
			h.compareOffsets(fmt.Sprintf("%+v", f), size, func(ctx context.Context, p page.Paging) (ids []string, next page.Cursor, err error) {
				got, err := h.store.Deliveries(ctx, alice.OrgID, w.ID, f, p)
				for _, r := range got.Items {
					ids = append(ids, r.ID)
				}
				return ids, got.Next, err
			})
		}
		check(Filter{Status: Pending})
		check(Filter{Status: Pending, DestinationID: to.ID})
		h.failAll(to.ID)
		check(Filter{})
		check(Filter{Status: Failed})
		check(Filter{DestinationID: to.ID})
		check(Filter{DestinationID: to.ID, Status: Failed})
	})
}

// failAll ends all deliveries that are due, without another attempt.
func (h *fixture) failAll(destinationID string) {
	h.t.Helper()
	for {
		rows, _ := h.store.claim(h.t, destinationID, 500)
		if len(rows) == 0 {
			return
		}
		var results []queue.Result
		for _, d := range rows {
			results = append(results, queue.Result{Row: d, Error: "refused", At: stamp.Of(h.clock.now())})
		}
		_, _, err := h.store.Finish(h.t.Context(), results)
		must(h.t, err)
	}
}

func (h *fixture) compareOffsets(name string, size int, list func(context.Context, page.Paging) ([]string, page.Cursor, error)) {
	h.t.Helper()
	var all []string
	for p, more := (page.Paging{Limit: page.MaxLimit}), true; more; more = p.Cursor != "" {
		ids, next, err := list(h.t.Context(), p)
		must(h.t, err)
		all = append(all, ids...)
		p.Cursor = next
	}
	if len(all) != size {
		h.t.Fatalf("%s: %d rows, want %d", name, len(all), size)
	}
	for _, offset := range []int{0, page.MaxSkipped, page.MaxSkipped + 1, size - 1, size, 5 * size} {
		got, next, err := list(h.t.Context(), page.Paging{Limit: 7, Offset: offset})
		must(h.t, err)
		want := all[min(offset, size):min(offset+7, size)]
		if !slices.Equal(got, want) || (next != "") != (offset+7 < size) {
			h.t.Errorf("%s, offset %d: %v, next %q, want %v", name, offset, got, next, want)
		}
	}
}
