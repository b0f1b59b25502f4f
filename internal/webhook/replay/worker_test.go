package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/period"
	"steward/internal/waittest"
	"steward/internal/webhook"
)

// TestManyReplaysAdvance has more replays than the worker has in memory.
func TestManyReplaysAdvance(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		for range pageReplays/maxRunning + 1 {
			w, err := f.hooks.Create(ctx, &struct{ Body webhook.NewWebhook }{webhook.NewWebhook{Name: "orders"}})
			must(t, err)
			f.webhookID = w.ID
			for range maxRunning {
				_, err := f.create("")
				must(t, err)
			}
		}
		busy, err := f.worker.step(ctx)
		must(t, err)
		if left := f.toWalk(); !busy || left != 0 {
			t.Errorf("%d replays are left after a step", left)
		}
	})
}

// TestStoppedWorkerReleasesItsLease: another replica need not wait until the lease expires.
func TestStoppedWorkerReleasesItsLease(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		_, err := f.create("")
		must(t, err)
		running, stop := context.WithCancel(ctx)
		var worker sync.WaitGroup
		worker.Go(func() { f.worker.Run(running) })
		waittest.True(t, "the replay", func() bool { return f.toWalk() == 0 })
		stop()
		worker.Wait()
		var owner string
		must(t, d.Read(ctx).Row(`SELECT owner FROM leases WHERE name = 'webhook replays'`).Scan(&owner))
		if owner != "" {
			t.Errorf("%s has the lease", owner)
		}
	})
}

func (f *fixture) toWalk() int {
	f.t.Helper()
	some, err := f.replays.Store.toWalk(ctx, "")
	must(f.t, err)
	return len(some)
}

// TestBrokenReplayKeepsNobodyBack has a receipt that cannot be delivered, in the replay that comes first.
func TestBrokenReplayKeepsNobodyBack(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.accept(1)
		to := f.destination("/a", 3)
		must(t, d.Write(ctx, func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE webhook_receipts SET key = substr(key, 1, 50)`)
			return err
		}))
		broken, err := f.create(`, "to": "` + to + `"`)
		must(t, err)
		f.accept(1)
		other, err := f.create(`, "to": "` + to + `", "since": "` + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) + `"`)
		must(t, err)
		must(t, d.Write(ctx, func(tx *db.Tx) error { // it begins after the malformed one
			_, err := tx.Exec(`UPDATE webhook_replays SET added_to = (SELECT min(key) FROM webhook_receipts) WHERE id = $1`, other.ID)
			return err
		}))
		_, err = f.worker.step(ctx)
		must(t, err)
		if got := f.get(broken); got.added != 0 || got.walked {
			t.Errorf("the broken one is %+v", got)
		}
		if got := f.get(other); got.added != 1 || !got.walked {
			t.Errorf("the other one is %+v", got)
		}
	})
}

// TestReplayEndsWithItsWebhook deletes the webhook of a replay that is running.
func TestReplayEndsWithItsWebhook(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.accept(window + 100)
		to := f.destination("/a", 3)
		_, err := f.create(`, "to": "` + to + `"`)
		must(t, err)
		_, err = f.worker.step(ctx)
		must(t, err)
		must(t, f.hooks.Store.Delete(ctx, "org_a", f.webhookID, page.IfMatch{}))
		_, err = f.worker.step(ctx)
		must(t, err)
		retention := &webhook.Retention{Store: f.hooks.Store, Keep: time.Hour}
		must(t, retention.Run(ctx))
		for _, table := range []string{"webhook_replays", "webhook_queue", "webhook_deliveries", "webhook_receipts"} {
			var rows int
			must(t, d.Read(ctx).Row(`SELECT count(*) FROM `+table).Scan(&rows))
			if rows != 0 {
				t.Errorf("%s has %d rows", table, rows)
			}
		}
	})
}

// TestReplayPassesOverWhatIsNoLongerKept removes receipts after they were counted, and after their
// deliveries were added.
func TestReplayPassesOverWhatIsNoLongerKept(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ids := f.accept(window + 100)
		to := f.destination("/a", 3)
		made, err := f.create(`, "to": "` + to + `"`)
		must(t, err)
		_, err = f.worker.step(ctx)
		must(t, err)
		gone := append(ids[:10:10], ids[window:window+50]...)
		must(t, d.Write(ctx, func(tx *db.Tx) error {
			for _, receiptID := range gone {
				_, row, _ := strings.Cut(receiptID, "_")
				if _, err := tx.Exec(`DELETE FROM webhook_receipts WHERE substr(key, 27) = $1`, row); err != nil {
					return err
				}
			}
			return nil
		}))
		f.runScheduler()
		f.run(f.worker.Run)
		got := f.wait(made)
		if got.Total != window+50 || got.Done != got.Total || got.Failed != 10 {
			t.Errorf("ended as %+v", got)
		}
		want := append(ids[10:window:window], ids[window+50:]...)
		if sent := f.arrived("/a"); !slices.Equal(sent, want) {
			t.Errorf("%d were sent, want %d in order", len(sent), len(want))
		}
	})
}

// TestCancelledReplayAddsNothing cancels while workers add deliveries.
func TestCancelledReplayAddsNothing(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.accept(500)
		to := f.destination("/a", 3)
		f.runScheduler()
		for i := range 2 {
			w := NewWorker(f.replays.Store, f.worker.Log, fmt.Sprint("rep_", i))
			w.renewed = time.Now().Add(time.Hour) // it takes the lease for granted
			f.run(w.Run)
		}
		for round := range 3 {
			made, err := f.create(`, "to": "` + to + `"`)
			must(t, err)
			waittest.Until(t, "some deliveries", func() (int64, bool) { n := f.get(made).Done; return n, n > int64(round*50) })
			var group sync.WaitGroup
			for range 4 {
				group.Go(func() {
					err := f.replays.Store.Cancel(ctx, "org_a", f.webhookID, made.ID)
					if err != nil && errs.KindOf(err) != errs.Conflict { // it may be done already
						t.Error(err)
					}
				})
			}
			group.Wait()
			cancelled := f.get(made)
			f.waitEnded()
			got := f.get(made)
			if got.added != cancelled.added || got.Done != got.added || got.State != cancelled.State {
				t.Errorf("cancelled as %+v, then it is %+v", cancelled, got)
			}
		}
	})
}

func TestReplayBodiesAreChecked(t *testing.T) {
	now := time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC)
	at := func(d time.Duration) period.Bound { return period.Bound(now.Add(d).Format(time.RFC3339)) }
	for name, test := range map[string]struct {
		body  NewReplay
		fault string
	}{
		"until is before since":   {NewReplay{Since: at(-time.Hour), Until: page.Some(at(-2 * time.Hour))}, "body.since"},
		"since is in the future":  {NewReplay{Since: at(time.Hour)}, "body.since"},
		"until is in the future":  {NewReplay{Since: at(-time.Hour), Until: page.Some(at(time.Hour))}, ""},
		"nothing between them":    {NewReplay{Since: at(-time.Hour), Until: page.Some(at(-time.Hour))}, ""},
		"a negative rate":         {NewReplay{Since: at(-time.Hour), Rate: page.Some(int64(-1))}, "body.rate"},
		"a rate of 0":             {NewReplay{Since: at(-time.Hour), Rate: page.Some(int64(0))}, "body.rate"},
		"a rate that is too high": {NewReplay{Since: at(-time.Hour), Rate: page.Some(int64(maxRate + 1))}, "body.rate"},
		"the highest rate":        {NewReplay{Since: at(-time.Hour), Rate: page.Some(int64(maxRate))}, ""},
	} {
		var faults errs.Faults
		r := test.body.build(&faults, now)
		err := faults.Err()
		if (err != nil) != (test.fault != "") || err != nil && !strings.Contains(fmt.Sprintf("%+v", err), test.fault) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && r.Until.Std().After(now) {
			t.Errorf("%s: until %v", name, r.Until)
		}
	}
}
