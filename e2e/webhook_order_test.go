package e2e

import (
	"fmt"
	"slices"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

func TestDeliveriesWithConcurrencyOneAreInOrder(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k, h := sink.New(t), s.NewHook("orders")
		s.NewDestination(h, k.URL+"/order", "concurrency", 1)
		var want []string
		for i := range 60 {
			want = append(want, s.Ingest(h, fmt.Sprint(i)))
		}
		var got []string
		for i, a := range k.Wait("/order", len(want)) {
			got = append(got, a.Header.Get("Webhook-Id"))
			if a.Body != fmt.Sprint(i) {
				t.Errorf("number %d has the body %s", i, a.Body)
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
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k, h := sink.New(t), s.NewHook("orders")
		acked := newAcknowledged()
		stop := make(chan struct{})
		s.NewDestination(h, k.URL+"/order", "concurrency", 1)
		clients := sendLoad(s, h, "order", 32, acked, stop)
		k.Wait("/order", 500)
		close(stop)
		clients.Wait()
		var got []string
		for _, a := range k.Wait("/order", acked.size()) {
			got = append(got, a.Header.Get("Webhook-Id"))
		}
		if len(got) != acked.size() || !slices.IsSorted(got) {
			t.Errorf("%d of %d arrived, sorted: %v", len(got), acked.size(), slices.IsSorted(got))
		}
	})
}
