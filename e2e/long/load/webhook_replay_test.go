package load

import (
	"net/http"
	"slices"
	"sync"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

// TestReplayLeavesRoomForOthers ingests while a replay waits for its destination: what is new waits for
// few of the replay's deliveries, and not at all at another destination.
func TestReplayLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k, h := sink.New(t), s.NewHook("orders")
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range 100 {
					s.Ingest(h, "{}")
				}
			})
		}
		group.Wait()
		to, _ := s.NewDestination(h, k.URL+"/same")
		s.NewDestination(h, k.URL+"/other")
		ingested := make(chan struct{})
		k.Handle("/same", func(_ http.ResponseWriter, r *http.Request, n int) {
			if n > 200 {
				select {
				case <-ingested:
				case <-r.Context().Done():
				}
			}
		})
		r := s.CreateReplay(h, "to", to)
		k.Wait("/same", 200)
		id := s.Ingest(h, "new")
		close(ingested)
		s.WaitReplay(h, r.ID)
		position := slices.IndexFunc(k.Wait("/same", 801), func(a sink.Arrival) bool { return a.Header.Get("Webhook-Id") == id && a.Body == "new" })
		if position < 200 || position > 700 {
			t.Errorf("the new one was the %dth of 801", position)
		}
		k.Wait("/other", 1)
		if n := k.Count("/other"); n != 1 {
			t.Errorf("another destination got %d", n)
		}
	})
}
