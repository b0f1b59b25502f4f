package e2e

import (
	"fmt"
	"slices"
	"testing"
)

func TestDeliveriesWithConcurrencyOneAreInOrder(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		s.destination(h, k.URL+"/order", "concurrency", 1)
		var want []string
		for i := range 60 {
			want = append(want, s.ingest(h, fmt.Sprint(i)))
		}
		var got []string
		for i, a := range k.wait("/order", len(want)) {
			got = append(got, a.header.Get("Webhook-Id"))
			if a.body != fmt.Sprint(i) {
				t.Errorf("number %d has the body %s", i, a.body)
			}
		}
		if !slices.Equal(got, want) || !slices.IsSorted(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestDeliveriesWithConcurrencyOneAreInOrderUnderLoad sends events from many clients at once, so that
// a backlog grows. The order is that of the receipts.
func TestDeliveriesWithConcurrencyOneAreInOrderUnderLoad(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		acked := newAcknowledged()
		stop := make(chan struct{})
		s.destination(h, k.URL+"/order", "concurrency", 1)
		clients := s.load(h, "order", 32, acked, stop)
		k.wait("/order", 500)
		close(stop)
		clients.Wait()
		var got []string
		for _, a := range k.wait("/order", acked.size()) {
			got = append(got, a.header.Get("Webhook-Id"))
		}
		if len(got) != acked.size() || !slices.IsSorted(got) {
			t.Errorf("%d of %d arrived, sorted: %v", len(got), acked.size(), slices.IsSorted(got))
		}
	})
}
