package db

import (
	"context"
	"time"
)

// Waiting returns the number of callers that wait for the next batch.
func (g *Gather[T]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.count
}

// SetPoll sets how often RunWatch reads the epochs, before it starts.
func (d *DB) SetPoll(every time.Duration) { d.poll = every }

// WithLimits returns a context with other limits than those of Long.
func WithLimits(ctx context.Context, respond, statement, lock, idle time.Duration) context.Context {
	return context.WithValue(ctx, limitsKey{}, limits{respond: respond, statement: statement, lock: lock, idle: idle})
}
