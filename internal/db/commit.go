package db

import (
	"cmp"
	"context"
	"errors"
	"time"

	"steward/internal/errs"
	"steward/internal/sqlite"
)

// writer writes to SQLite in batches, on the only connection that writes.
type writer struct {
	db    *DB
	path  string
	batch sqlite.Batch[*sqlite.Conn]
	// conn belongs to the batch until that is closed. It is nil if we could not open the file again.
	conn *sqlite.Conn
}

func newWriter(d *DB, path string, conn *sqlite.Conn, queue int) *writer {
	w := &writer{db: d, path: path, conn: conn}
	w.batch = sqlite.Batch[*sqlite.Conn]{
		Acquire:   w.acquire,
		Release:   w.release,
		Queue:     cmp.Or(max(queue, 0), defaultQueue),
		Committed: d.observer.commit,
	}
	w.batch.Start()
	return w
}

// acquire returns the connection, and opens a new one if the last one broke.
func (w *writer) acquire() (*sqlite.Conn, error) {
	if w.conn != nil {
		return w.conn, nil
	}
	conn, err := sqlite.Open(w.path, writerPragmas)
	if err != nil {
		return nil, err
	}
	w.conn = conn
	return conn, nil
}

func (w *writer) release(_ *sqlite.Conn, broken bool) {
	if broken {
		_ = w.closeConn() // only the next connection matters
	}
}

func (w *writer) closeConn() error {
	if w.conn == nil {
		return nil
	}
	err := w.conn.Close()
	w.conn = nil
	return err
}

// write runs fn in a batch. If ctx ends before fn's turn, it returns ctx's error and fn never runs;
// from then on ctx makes no difference.
func (w *writer) write(ctx context.Context, fn func(*Tx) error) (*Tx, error) {
	var t *Tx
	var held time.Duration
	err := w.batch.Write(ctx, func(conn *sqlite.Conn) error {
		t = newTx(ctx, w.db, &writeSession{conn: conn, batch: &w.batch}, nil)
		began := time.Now()
		defer func() { held = time.Since(began) }()
		return t.run(fn)
	}, nil)
	w.db.observer.held(ctx, held)
	return t, explainBatch(err)
}

// explainBatch turns a batch's errors into errs.Unavailable.
func explainBatch(err error) error {
	switch {
	case errors.Is(err, sqlite.ErrQueueFull):
		return errs.Unavailablef(nil, "too many writes are waiting")
	case errors.Is(err, sqlite.ErrClosed):
		return errClosed
	case errors.Is(err, sqlite.ErrNotBegun):
		return errs.Unavailablef(err, "the database cannot be written at the moment")
	case errors.Is(err, sqlite.ErrRolledBack):
		return errs.Unavailablef(err, "the database could not write")
	}
	return err
}

// writeSession is one write in a batch.
type writeSession struct {
	conn  *sqlite.Conn
	batch *sqlite.Batch[*sqlite.Conn]
	// rolledBack is the error after which SQLite rolled back the whole transaction by itself.
	rolledBack error
}

func (s *writeSession) exec(_ context.Context, text string, args []any) (int64, error) {
	if err := s.ready(args); err != nil {
		return 0, err
	}
	if err := s.conn.Exec(text, args...); err != nil {
		return 0, s.failed(err)
	}
	return int64(s.conn.Changes()), nil
}

func (s *writeSession) send(ctx context.Context, r *Result, text string, args []any) error {
	if r != nil && r.row != nil {
		return s.collect(ctx, r, text, args)
	}
	n, err := s.exec(ctx, text, args)
	if r != nil {
		*r.count = n
	}
	return err
}

func (s *writeSession) query(_ context.Context, text string, args []any) (Rows, error) {
	if err := s.ready(args); err != nil {
		return nil, err
	}
	rows, err := s.conn.Query(text, args, s.failed)
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// ready refuses statements once SQLite has rolled back the transaction: each would commit by itself.
func (s *writeSession) ready(args []any) error {
	if s.rolledBack != nil {
		return explainSQLite(s.rolledBack)
	}
	s.batch.Grow(sizeOf(args))
	return nil
}

// failed notes whether SQLite rolled back the whole transaction because of an error.
func (s *writeSession) failed(err error) error {
	if err != nil && s.rolledBack == nil && s.conn.AutocommitEnabled() {
		s.rolledBack = err
	}
	return explainSQLite(err)
}

// sizeOf estimates the bytes in text and bytes arguments.
func sizeOf(args []any) int {
	n := 0
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			n += len(v)
		case *string:
			if v != nil {
				n += len(*v)
			}
		case []byte:
			n += len(v)
		}
	}
	return n
}
