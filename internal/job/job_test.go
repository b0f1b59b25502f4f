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
			stopped = append(stopped, i) // one at a time: Stop waits for each
		})
	}
	g.Stop()
	if !slices.Equal(stopped, []int{2, 1, 0}) {
		t.Fatalf("stopped in the order %v", stopped)
	}
}

// TestEveryGoesOnAndEndsWithARound: errors do not end the loop, and what is left is done when it is stopped.
func TestEveryGoesOnAndEndsWithARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g job.Group
		rounds := 0
		g.Go(job.Every(slog.New(slog.DiscardHandler), "count", time.Minute, func(ctx context.Context) error {
			rounds++
			return errors.Join(ctx.Err(), errors.New("broken"))
		}))
		time.Sleep(3*time.Minute + time.Second)
		g.Stop()
		if rounds != 4 {
			t.Fatalf("%d rounds, want 3 and a last one", rounds)
		}
	})
}

func TestLeaseHasOneHolder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		now := time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC)
		lease := func(owner string) *job.Lease {
			return &job.Lease{DB: d, Now: func() time.Time { return now }, Name: "work", Owner: owner, For: time.Minute}
		}
		hold := func(owner string, want bool) {
			t.Helper()
			if got, err := lease(owner).Hold(t.Context()); got != want || err != nil {
				t.Fatalf("%s holds it: %v, %v", owner, got, err)
			}
		}
		hold("a", true)
		hold("b", false)
		now = now.Add(50 * time.Second)
		hold("a", true) // prolonged
		now = now.Add(50 * time.Second)
		hold("b", false)
		now = now.Add(11 * time.Second)
		hold("b", true) // a is gone
		hold("a", false)
	})
}
