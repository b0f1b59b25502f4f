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
