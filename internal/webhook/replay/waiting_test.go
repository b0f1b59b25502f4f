package replay

import (
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/stamp"
	"steward/internal/waittest"
	"steward/internal/webhook"
)

// TestReplayMakesWaitingAttemptsDue replays what waits for a retry, with two replays at once: both count
// the waiting attempts, and none is added. To another destination each is sent as a chain of its own.
func TestReplayMakesWaitingAttemptsDue(t *testing.T) {
	const n, early = 300, 100 // more than a window, and less
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.runScheduler()
		a := f.destination("/a", 3)
		f.respond("/a", 500)
		f.accept(early)
		waittest.True(t, "the next millisecond", func() bool { return time.Now().UnixMilli() > lastMilli(f) })
		until := stamp.Of(time.Now()).String()
		f.accept(n - early)
		waittest.Until(t, "the first attempts", func() (int, bool) {
			waiting := len(f.deliveries(webhook.Filter{Status: webhook.Waiting}))
			return waiting, waiting == n
		})
		for fields, want := range map[string]int64{
			`, "status": "failed"`: n, `, "status": "waiting"`: n, `, "status": "pending"`: n, `, "status": "success"`: 0, ``: n,
			`, "status": "waiting", "destinationId": "` + a + `"`: n,
		} {
			if dry, err := f.create(fields + `, "dry_run": true`); err != nil || dry.Total != want {
				t.Errorf("%s: a dry run counts %d, want %d (%v)", fields, dry.Total, want, err)
			}
		}
		f.respond("/a", 200)
		f.arrived("/a")
		first, err := f.create(`, "status": "failed"`)
		must(t, err)
		second, err := f.create(`, "status": "waiting", "to": "` + a + `", "until": "` + until + `"`)
		must(t, err)
		f.mu.Lock() // no request is answered before both have made the same attempts due
		for _, r := range []Replay{first, second} {
			must(t, f.worker.advance(ctx, f.get(r)))
		}
		f.mu.Unlock()
		f.run(f.worker.Run)
		if got := f.wait(first); got.Total != n || got.Done != n || got.Failed != 0 {
			t.Errorf("ended as %+v", got)
		}
		if got := f.wait(second); got.Total != early || got.Done != early || got.Failed != 0 {
			t.Errorf("the second ended as %+v", got)
		}
		if got := len(f.arrived("/a")); got != n {
			t.Errorf("%d requests", got)
		}
		all := f.deliveries(webhook.Filter{})
		for _, d := range all {
			if d.ReplayID != "" || d.Retries > 1 {
				t.Errorf("%+v", d)
			}
		}
		if len(all) != 2*n || len(f.deliveries(webhook.Filter{Status: webhook.Success})) != n {
			t.Errorf("%d deliveries", len(all))
		}
	})
}

// TestReplayOfWaitingAttemptsElsewhere adds deliveries to another destination; the attempts still wait.
func TestReplayOfWaitingAttemptsElsewhere(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.runScheduler()
		f.destination("/a", 3)
		f.respond("/a", 500)
		f.accept(3)
		waittest.True(t, "the first attempts", func() bool { return len(f.deliveries(webhook.Filter{Status: webhook.Waiting})) == 3 })
		b := f.destination("/b", 0)
		f.run(f.worker.Run)
		made, err := f.create(`, "status": "waiting", "to": "` + b + `"`)
		must(t, err)
		if got := f.wait(made); got.Total != 3 || got.Done != 3 || got.Failed != 0 {
			t.Errorf("ended as %+v", got)
		}
		if len(f.arrived("/b")) != 3 || len(f.arrived("/a")) != 3 || len(f.deliveries(webhook.Filter{Status: webhook.Waiting})) != 3 {
			t.Errorf("%+v", f.deliveries(webhook.Filter{}))
		}
		// A waiting attempt that fails counts as failed.
		again, err := f.create(`, "status": "waiting"`)
		must(t, err)
		if got := f.wait(again); got.Total != 3 || got.Done != 3 || got.Failed != 3 {
			t.Errorf("ended as %+v", got)
		}
	})
}
