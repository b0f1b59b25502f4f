package db

import (
	"context"
	"errors"

	driver "zombiezen.com/go/sqlite"

	"steward/internal/sqlite"
)

const readerCount = 6

// readers is the pool of read connections on SQLite.
type readers struct {
	free   chan *sqlite.Conn
	closed chan struct{}
}

func newReaders(path string) (*readers, error) {
	p := &readers{free: make(chan *sqlite.Conn, readerCount), closed: make(chan struct{})}
	for range readerCount {
		conn, err := sqlite.Open(path, readerPragmas)
		if err != nil {
			for len(p.free) > 0 {
				_ = (<-p.free).Close()
			}
			return nil, err
		}
		p.free <- conn
	}
	return p, nil
}

// query returns rows whose connection goes back to the pool when they end. They are interrupted when
// ctx ends or their time is up.
func (p *readers) query(ctx context.Context, text string, args []any) (Rows, error) {
	ctx, cancel := limited(ctx)
	conn, err := p.take(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	rows, err := conn.Query(text, args, func(err error) error {
		p.put(conn)
		defer cancel()
		return explainRead(ctx, err)
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// explainRead explains the error from a connection that was taken with ctx.
func explainRead(ctx context.Context, err error) error {
	if sqliteCode(err) == driver.ResultInterrupt {
		return explainLimit(ctx, ctx.Err())
	}
	return explainSQLite(err)
}

// take returns a connection whose statements are interrupted when ctx ends. ctx comes from limited.
func (p *readers) take(ctx context.Context) (*sqlite.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case conn := <-p.free:
		conn.SetInterrupt(ctx.Done())
		return conn, nil
	case <-ctx.Done():
		return nil, explainLimit(ctx, ctx.Err())
	case <-p.closed:
		return nil, errClosed
	}
}

func (p *readers) put(conn *sqlite.Conn) {
	conn.SetInterrupt(nil)
	p.free <- conn
}

// close waits for the connections in use: each comes back when its rows are closed.
func (p *readers) close() error {
	close(p.closed)
	var all []error
	for range readerCount {
		conn := <-p.free
		all = append(all, conn.Close())
	}
	return errors.Join(all...)
}
