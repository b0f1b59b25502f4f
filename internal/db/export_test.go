package db

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
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

// Wrap has a DB on PostgreSQL connect again, through connections that wrap its own.
func (d *DB) Wrap(ctx context.Context, wrap func(net.Conn) net.Conn) error {
	e := d.engine.(*postgresEngine)
	cfg := e.pool.Config()
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return wrap(conn), nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	e.pool.Close()
	e.pool = pool
	return nil
}
