package job_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/job"
)

func TestGroupStopsLastStartedFirst(t *testing.T) {
	var g job.Group
	var stopped []int
	for i := range 3 {
		g.Go(func(ctx context.Context) {
			<-ctx.Done()
			stopped = append(stopped, i) // not concurrently: Stop waits for each loop
		})
	}
	g.Stop()
	if !slices.Equal(stopped, []int{2, 1, 0}) {
		t.Fatalf("stopped in the order %v", stopped)
	}
}

func TestEveryContinuesAfterErrorsAndRunsOnceMoreWhenStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g job.Group
		calls := 0
		g.Go(job.Every(slog.New(slog.DiscardHandler), "count", time.Minute, func(ctx context.Context) error {
			calls++
			return errors.Join(ctx.Err(), errors.New("failed"))
		}))
		time.Sleep(3*time.Minute + time.Second)
		g.Stop()
		if calls != 4 {
			t.Fatalf("%d calls, want 3 and a final one", calls)
		}
	})
}

func TestLeaseHasOneHolder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		now := time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)
		acquire := func(owner string, want bool) {
			t.Helper()
			lease := &job.Lease{DB: d, Now: func() time.Time { return now }, Name: "work", Owner: owner, TTL: time.Minute}
			if got, err := lease.Acquire(t.Context()); got != want || err != nil {
				t.Fatalf("Acquire for %s: %v, %v; want %v", owner, got, err, want)
			}
		}
		acquire("a", true)
		acquire("b", false)
		now = now.Add(50 * time.Second)
		acquire("a", true) // renewed
		now = now.Add(50 * time.Second)
		acquire("b", false)
		now = now.Add(11 * time.Second)
		acquire("b", true) // expired
		acquire("a", false)
	})
}

func TestExclusiveCallsOnlyTheHolder(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	calls := map[string]int{}
	for range 2 {
		for _, owner := range []string{"a", "b"} {
			lease := &job.Lease{DB: d, Now: time.Now, Name: "work", Owner: owner, TTL: time.Hour}
			do := lease.Exclusive(func(context.Context) error {
				calls[owner]++
				return nil
			})
			if err := do(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if calls["a"] != 2 || calls["b"] != 0 {
		t.Errorf("calls by owner: %v", calls)
	}
}
