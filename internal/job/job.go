// Package job runs work in the background: loops, leases for work that only one replica may do at a
// time, and jobs that run at an interval across all replicas.
package job

import (
	"context"
	"log/slog"
	"time"
)

// Group runs loops, each in its own goroutine. The zero value is ready to use.
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

// Stop cancels all loops and waits for them. If other loops depend on a loop, put it into a group
// that you stop after theirs.
func (g *Group) Stop() {
	for _, l := range g.loops {
		l.cancel()
	}
	for _, l := range g.loops {
		<-l.done
	}
	g.loops = nil
}

// Every returns a loop that calls do at an interval. It logs errors and continues.
func Every(log *slog.Logger, name string, interval time.Duration, do func(context.Context) error) func(context.Context) {
	return func(ctx context.Context) {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				call(ctx, log, name, do)
			}
		}
	}
}

// finalTimeout bounds the last call when a loop is stopped.
const finalTimeout = 5 * time.Second

// Flush returns a loop as Every does, for data that a process holds in memory: it calls flush once
// more when it is stopped.
func Flush(log *slog.Logger, name string, interval time.Duration, flush func(context.Context) error) func(context.Context) {
	loop := Every(log, name, interval, flush)
	return func(ctx context.Context) {
		loop(ctx)
		final, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalTimeout)
		defer cancel()
		call(final, log, name, flush)
	}
}

func call(ctx context.Context, log *slog.Logger, name string, do func(context.Context) error) {
	if err := do(ctx); err != nil && ctx.Err() == nil {
		log.Error("background job failed", "job", name, "error", err)
	}
}
