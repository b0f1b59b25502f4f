package db

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/sqlite"
)

// Snapshot calls fn with a Querier whose statements all see the same committed state. Use it when an
// answer takes several statements that must agree. fn cannot write. If ctx carries a transaction, fn
// reads in that.
//
// Snapshot returns fn's error unchanged. Other errors are the Querier's.
func (d *DB) Snapshot(ctx context.Context, fn func(q Querier) error) (err error) {
	if t := d.joined(ctx); t != nil {
		return fn(t)
	}
	if end := d.observer.begin(ctx, "snapshot"); end != nil {
		defer func() { end(err) }()
	}
	return d.engine.snapshot(ctx, d, fn)
}

func (e *sqliteEngine) snapshot(ctx context.Context, d *DB, fn func(Querier) error) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	conn, err := e.readers.take(ctx)
	if err != nil {
		return err
	}
	defer e.readers.put(conn)
	s := readSession{conn}
	if _, err := s.exec(ctx, "BEGIN", nil); err != nil {
		return err
	}
	defer func() {
		conn.SetInterrupt(nil) // the end must not be interrupted
		_, _ = s.exec(ctx, "ROLLBACK", nil)
	}()
	return newTx(ctx, d, s, nil).run(func(tx *Tx) error { return fn(tx) })
}

// readSession is a pooled read connection in a transaction.
type readSession struct{ conn *sqlite.Conn }

var errReadOnly = errors.New("db: a snapshot cannot be written")

func (s readSession) exec(ctx context.Context, text string, args []any) (int64, error) {
	return 0, explainRead(ctx, s.conn.Exec(text, args...))
}

func (s readSession) send(context.Context, *Result, string, []any) error { return errReadOnly }

func (s readSession) query(ctx context.Context, text string, args []any) (Rows, error) {
	rows, err := s.conn.Query(text, args, func(err error) error { return explainRead(ctx, err) })
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// snapshot runs fn in a transaction that it rolls back. BEGIN travels with the first statement.
func (e *postgresEngine) snapshot(ctx context.Context, d *DB, fn func(Querier) error) error {
	conn, err := e.acquire(ctx)
	if err != nil {
		return fmt.Errorf("begin snapshot: %w", err)
	}
	defer release(ctx, conn)
	s := e.session(ctx, conn, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	defer s.rollback()
	return newTx(ctx, d, s, nil).run(func(tx *Tx) error { return fn(tx) })
}
