package load

import (
	"slices"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

// TestDeliveriesWithConcurrencyOneAreInOrderUnderLoad sends events from many clients at once, so that
// a backlog grows. The order is that of the receipts.
func TestDeliveriesWithConcurrencyOneAreInOrderUnderLoad(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k, h := sink.New(t), s.NewHook("orders")
		acked := installation.NewAcknowledged()
		stop := make(chan struct{})
		s.NewDestination(h, k.URL+"/order", "concurrency", 1)
		clients := s.SendLoad(h, "order", 32, acked, stop)
		k.Wait("/order", 500)
		close(stop)
		clients.Wait()
		var got []string
		for _, a := range k.Wait("/order", acked.Size()) {
			got = append(got, a.Header.Get("Webhook-Id"))
		}
		if len(got) != acked.Size() || !slices.IsSorted(got) {
			t.Errorf("%d of %d arrived, sorted: %v", len(got), acked.Size(), slices.IsSorted(got))
		}
	})
}
