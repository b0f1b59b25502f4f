// Package job runs work in the background: loops that are stopped in order, and leases for work
// that only one replica at a time may do.
package job

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
)

// Group runs loops in goroutines of their own. The zero value is ready to use.
type Group struct {
	loops []loop
}

type loop struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Go starts a loop, which must return soon after its context is canceled.
func (g *Group) Go(run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	l := loop{cancel: cancel, done: make(chan struct{})}
	g.loops = append(g.loops, l)
	go func() {
		defer close(l.done)
		run(ctx)
	}()
}

// Stop cancels the loops and waits for them, one after the other and in the reverse order of their
// start, so that a loop can depend on those started before it.
func (g *Group) Stop() {
	for _, l := range slices.Backward(g.loops) {
		l.cancel()
		<-l.done
	}
	g.loops = nil
}

// finalTimeout bounds the last call of a loop that is stopped.
const finalTimeout = 5 * time.Second

// Every returns a loop that calls do at an interval, and once more when it is stopped. It logs
// errors and continues.
func Every(log *slog.Logger, name string, interval time.Duration, do func(context.Context) error) func(context.Context) {
	call := func(ctx context.Context) {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			log.Error("background job failed", "job", name, "error", err)
		}
	}
	return func(ctx context.Context) {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				call(ctx)
			case <-ctx.Done():
				final, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalTimeout)
				defer cancel()
				call(final)
				return
			}
		}
	}
}

// Lease is held by at most one process at a time. It expires TTL after its holder last renewed it.
type Lease struct {
	DB    *db.DB
	Now   func() time.Time
	Name  string
	Owner string
	TTL   time.Duration
}

// Acquire acquires or renews the lease and reports whether the owner holds it.
func (l *Lease) Acquire(ctx context.Context) (held bool, err error) {
	now := stamp.Of(l.Now())
	err = l.DB.Write(ctx, func(tx *db.Tx) error {
		n, err := tx.Exec(`INSERT INTO leases (name, owner, until) VALUES ($1, $2, $3)
			ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
			WHERE leases.until < $4 OR leases.owner = excluded.owner`, l.Name, l.Owner, now.Add(l.TTL), now)
		held = n == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("acquire lease %s: %w", l.Name, err)
	}
	return held, nil
}

// Exclusive returns a function that calls do if the owner holds the lease.
func (l *Lease) Exclusive(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		held, err := l.Acquire(ctx)
		if err != nil || !held {
			return err
		}
		return do(ctx)
	}
}
