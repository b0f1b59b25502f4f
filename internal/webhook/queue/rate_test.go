package queue_test

import (
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/webhook"
	"steward/internal/webhook/queue"
)

// TestRateHoldsOverReplicas has two processes send to a destination with a rate, step by step and by a
// clock that the test moves. The first one stops and releases its lease, or dies, in which case the other
// one takes over when the lease has expired.
func TestRateHoldsOverReplicas(t *testing.T) {
	const limit, events, step = 10, 60, 5 * time.Millisecond
	for name, release := range map[string]bool{"released": true, "died": false} {
		t.Run(name, func(t *testing.T) {
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				f := newFixture(t, d)
				w := f.webhook(alice)
				f.destination(alice, w.ID, `{"url": "http://a.test", "concurrency": 100, "rate": {"limit": 10, "per": "second"}}`)
				f.accept(w, alice, numbered(events)...)
				var began []time.Time
				replicaOf := func(owner string) (*queue.Replica, *webhook.Store) {
					store := f.process(owner)
					_, scheduler := newScheduler(store, &network{})
					r := queue.NewReplica(t, scheduler)
					r.OnStart(func(*queue.Task, bool) { began = append(began, f.clock.now()) })
					return r, store
				}
				first, firstStore := replicaOf("rep_a")
				second, _ := replicaOf("rep_b")
				run := func(r *queue.Replica) {
					r.Expire()
					r.Discover(t.Context())
					r.TakeLeases(t.Context())
					must(t, r.BeginRead(t.Context()))
					for r.Reads() > 0 {
						r.EndRead(t.Context(), 0)
					}
					r.Resume()
					for len(r.Running()) > 0 {
						r.EndAttempt()
					}
					r.Write()
				}
				started := f.clock.now()
				for f.clock.now().Sub(started) < 2*time.Second {
					run(first)
					f.clock.advance(step)
				}
				byFirst := len(began)
				if release {
					must(t, firstStore.Queue.ReleaseLeases(t.Context()))
				} else {
					f.clock.advance(queue.LeaseFor - queue.LeaseFor/2)
				}
				for range 6000 {
					run(second)
					f.clock.advance(step)
					if len(began) == events {
						break
					}
				}
				if byFirst < 18 || byFirst > 20 || len(began) != events {
					t.Fatalf("%d attempts by the first, %d in all", byFirst, len(began))
				}
				for i := limit; i < len(began); i++ {
					if within := began[i].Sub(began[i-limit]); within < time.Second {
						t.Errorf("%d attempts within %s, up to the %dth", limit+1, within, i)
					}
				}
				if took := began[events-1].Sub(began[byFirst]); took > 6*time.Second {
					t.Errorf("the second one took %s", took)
				}
				if n := len(f.deliveries(alice, w.ID, webhook.Filter{Status: webhook.Success})); n != events {
					t.Errorf("%d deliveries succeeded", n)
				}
			})
		})
	}
}

// TestPausedDestinationKeepsItsQueue pauses a destination with deliveries in memory and in the queue.
func TestPausedDestinationKeepsItsQueue(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		n := &network{}
		f.sender, f.scheduler = newScheduler(f.store, n)
		w := f.webhook(alice)
		to := f.destination(alice, w.ID, `{"url": "http://a.test", "rate": {"limit": 1, "per": "minute"}}`)
		f.destination(alice, w.ID, `{"url": "http://b.test"}`)
		f.accept(w, alice, numbered(5)...)
		f.run()
		n.waitFor(t, "http://a.test", 1)
		f.change(alice, to, `{"url": "http://a.test", "paused": true}`)
		f.accept(w, alice, numbered(5)...)
		f.accept(w, alice, "last")
		f.waitFor(alice, w, webhook.Success, 12) // one of them to the paused one
		if got := len(n.bodies("http://a.test")); got != 1 {
			t.Errorf("%d attempts to the paused one", got)
		}
		if pending := f.deliveries(alice, w.ID, webhook.Filter{DestinationID: to.ID, Status: webhook.Pending}); len(pending) != 10 {
			t.Errorf("%d are pending", len(pending))
		}
		h, err := f.store.Health(t.Context(), "org_a")
		must(t, err)
		if h.OldestDueAt != nil || h.FailingTotal != 0 || h.Pending < 10 {
			t.Errorf("health is %+v", h)
		}
		f.change(alice, to, `{"url": "http://a.test", "paused": false}`)
		f.waitFor(alice, w, webhook.Success, 22)
		if got := n.bodies("http://a.test"); len(got) != 11 {
			t.Errorf("after it was resumed: %s", got)
		}
		f.sumsHold("org_a")
	})
}
