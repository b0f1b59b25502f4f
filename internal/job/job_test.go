package job_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/job"
)

var silent = slog.New(slog.DiscardHandler)

// TestGroupStopsAllLoopsAtOnce has loops of which each ends when all have been told to.
func TestGroupStopsAllLoopsAtOnce(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		var g job.Group
		var told sync.WaitGroup
		for range 3 {
			told.Add(1)
			g.Go(func(ctx context.Context) {
				<-ctx.Done()
				told.Done()
				told.Wait()
			})
		}
		g.Stop()
	})
}

func TestLoopsContinueAfterErrors(t *testing.T) {
	for name, test := range map[string]struct {
		loop  func(*slog.Logger, string, time.Duration, func(context.Context) error) func(context.Context)
		calls int
	}{
		"every":                  {job.Every, 3},
		"flush, and a final one": {job.Flush, 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g job.Group
				calls := 0
				g.Go(test.loop(silent, "count", time.Minute, func(ctx context.Context) error {
					calls++
					return errors.Join(ctx.Err(), errors.New("failed"))
				}))
				time.Sleep(3*time.Minute + time.Second)
				g.Stop()
				if calls != test.calls {
					t.Fatalf("%d calls, want %d", calls, test.calls)
				}
			})
		})
	}
}
