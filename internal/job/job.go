// Package job owns what runs in the background: loops that are stopped in order, and leases for work that one replica at a time may do.
package job

import (
	"context"
	"log/slog"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
)

// Group runs loops. Stop ends them one after the other, the last started first, so that a loop may rely on those before it.
type Group struct {
	loops []loop
}

type loop struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Go starts a loop. It must return soon after its context is done.
func (g *Group) Go(run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	l := loop{cancel: cancel, done: make(chan struct{})}
	g.loops = append(g.loops, l)
	go func() {
		defer close(l.done)
		run(ctx)
	}()
}

// Stop ends all loops and waits for them.
func (g *Group) Stop() {
	for i := len(g.loops) - 1; i >= 0; i-- {
		g.loops[i].cancel()
		<-g.loops[i].done
	}
	g.loops = nil
}

// Every gives a loop that does something again and again, and once more when it is stopped. Errors are logged; the next round tries again.
func Every(log *slog.Logger, name string, pause time.Duration, do func(context.Context) error) func(context.Context) {
	round := func(ctx context.Context) {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			log.Error("background work failed", "work", name, "error", err)
		}
	}
	return func(ctx context.Context) {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				round(ctx)
			case <-ctx.Done():
				last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
				defer cancel()
				round(last)
				return
			}
		}
	}
}

// Lease lets one process at a time do a piece of work. A holder that dies loses it when its time is up.
type Lease struct {
	DB    *db.DB
	Now   func() time.Time
	Name  string
	Owner string
	For   time.Duration
}

// Hold takes or prolongs the lease, and tells whether it is ours.
func (l *Lease) Hold(ctx context.Context) (held bool, err error) {
	now := stamp.Of(l.Now())
	err = l.DB.Write(ctx, func(tx *db.Tx) error {
		n, err := tx.Exec(`INSERT INTO leases (name, owner, until) VALUES ($1, $2, $3)
			ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until
			WHERE leases.until < $4 OR leases.owner = excluded.owner`, l.Name, l.Owner, now.Add(l.For), now)
		held = n == 1
		return err
	})
	return held, err
}

// Sole gives work that is done only by the holder of the lease.
func (l *Lease) Sole(do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		held, err := l.Hold(ctx)
		if err != nil || !held {
			return err
		}
		return do(ctx)
	}
}
