package db

import (
	"context"

	"steward/internal/db/sqlite"
	"steward/internal/errs"
)

// readers is the pool of read-only connections on SQLite. It hands out whole connections, so that each keeps its prepared statements.
type readers struct {
	path string
	free chan *reader
	done chan struct{}
}

// reader is one connection, opened when it is first needed.
type reader struct{ statements }

func newReaders(path string) *readers {
	p := &readers{path: path, free: make(chan *reader, readerCount), done: make(chan struct{})}
	for range readerCount {
		p.free <- &reader{}
	}
	return p
}

func (p *readers) take(ctx context.Context) (*reader, error) {
	select {
	case r := <-p.free:
		return p.opened(r)
	default:
	}
	select {
	case r := <-p.free:
		return p.opened(r)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-p.done:
		return nil, errClosed
	}
}

func (p *readers) opened(r *reader) (*reader, error) {
	if r.conn != nil {
		return r, nil
	}
	conn, err := connect(p.path, readerPragmas)
	if err != nil {
		p.free <- r
		return nil, errs.Busy(err, "the database cannot be opened for reading")
	}
	r.statements = conn
	return r, nil
}

// query gives rows that bring their connection back when they are closed. ctx cuts them short.
func (p *readers) query(ctx context.Context, text string, args []any) (Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := r.query(ctx, text, args)
	if err != nil {
		p.free <- r
		return nil, err
	}
	return &pooledRows{liteRows: liteRows{rows}, back: func() { p.free <- r }}, nil
}

func (r *reader) query(ctx context.Context, text string, args []any) (*sqlite.Rows, error) {
	st, err := r.of(text)
	if err != nil {
		return nil, explainSQLite(err)
	}
	rows, err := st.Query(ctx, args...)
	return rows, explainSQLite(err)
}

// close waits for the readers that are out: each comes back when its rows are closed.
func (p *readers) close() {
	close(p.done)
	for range readerCount {
		r := <-p.free
		_ = r.close() // nothing was written
	}
}

type pooledRows struct {
	liteRows
	back func()
}

func (r *pooledRows) Next() bool {
	if r.liteRows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *pooledRows) Close() {
	r.liteRows.Close()
	if r.back != nil {
		r.back()
		r.back = nil
	}
}

// lazyRow asks when it is scanned, so that a Row which nobody scans holds no connection.
type lazyRow struct {
	p    *readers
	ctx  context.Context
	text string
	args []any
}

func (l lazyRow) Scan(dest ...any) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	r, err := l.p.take(l.ctx)
	if err != nil {
		return err
	}
	defer func() { l.p.free <- r }()
	rows, err := r.query(context.Background(), l.text, l.args)
	if err != nil {
		return err
	}
	return firstRow{liteRows{rows}}.Scan(dest...)
}
