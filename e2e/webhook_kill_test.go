package e2e

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/e2e/sink"
)

// TestAcknowledgedEventsSurviveKill kills processes while they accept and deliver events. Every
// acknowledged receipt must be stored afterwards, and reach its destination at least once.
//
// The leases of a killed process expire after 30 s. So that this is waited for once only, all
// installations are killed before any is checked.
func TestAcknowledgedEventsSurviveKill(t *testing.T) {
	t.Parallel()
	var checks []func()
	for _, name := range process.Databases {
		s, k, acked := installation.Start(t, name), sink.New(t), newAcknowledged()
		hooks := killRounds(s, k, acked)
		started := time.Now()
		checks = append(checks, func() {
			waitArrived(s, k, hooks, acked)
			t.Logf("%s: all delivered %v after the last start", name, time.Since(started).Round(time.Millisecond))
			for path, h := range hooks {
				checkReceipts(s, h, k, path, acked)
			}
			checkCounts(s, hooks)
		})
	}
	for _, check := range append(checks, killReplica(t)) {
		check()
	}
}

// killRounds runs four loads, each of which ends with a kill and a start. Each has its own webhook,
// since the killed process still holds the lease of the last one's destination.
func killRounds(s *installation.Steward, k *sink.Sink, acked *acknowledged) map[string]installation.Hook {
	s.T.Helper()
	hooks := map[string]installation.Hook{}
	for round := range 4 {
		path := fmt.Sprintf("/round-%d", round)
		h := s.NewHook(path)
		hooks[path] = h
		s.NewDestination(h, k.URL+path, "concurrency", 1+9*(round%2)) // with 1, a backlog grows
		before := acked.size()
		clients := sendLoad(s, h, path, 16, acked, nil)
		k.Wait(path, 150+100*round)
		s.Kill()
		clients.Wait()
		s.T.Logf("%s: %d acknowledged, %d delivered at the kill", path, acked.size()-before, k.Count(path))
		s.Start()
	}
	return hooks
}

// killReplica kills one of two replicas in the middle of a load. One destination responds with an
// error to every tenth request until then, so that retries are waiting. The returned check waits until
// the other replica has sent everything.
func killReplica(t *testing.T) (check func()) {
	var killed atomic.Bool
	const flaky = "/shared-3"
	r := loadReplicas(t, map[string]sink.Handler{flaky: func(w http.ResponseWriter, _ *http.Request, n int) {
		if n%10 == 0 && !killed.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}})
	killed.Store(true)
	r.two.Kill()
	at := time.Now()
	r.stopLoad()
	return func() {
		waitEnded(r.one, r.hooks)
		waitArrived(r.one, r.k, r.hooks, r.acked)
		t.Logf("the other replica had sent all %v after the kill", latest(r.k, r.hooks).Sub(at).Round(time.Millisecond))
		for path, h := range r.hooks {
			checkReceipts(r.one, h, r.k, path, r.acked)
		}
		if r.one.Total("/webhook/delivery-list/"+r.hooks[flaky].ID+"?status=failed") == "0" {
			t.Error("no delivery failed")
		}
		checkCounts(r.one, r.hooks)
	}
}
