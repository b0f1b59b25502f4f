package db

import "context"

// query runs a query outside of a transaction, and has the observer see when its rows end.
func (d *DB) query(ctx context.Context, sql string, args []any) (Rows, error) {
	end := d.observer.begin(ctx, "read")
	rows, err := d.engine.query(ctx, sql, args)
	if end == nil {
		return rows, err
	}
	if err != nil {
		end(err)
		return nil, err
	}
	return &observedRows{Rows: rows, end: end}, nil
}

// observedRows are rows whose end is observed: that they were read to the end, or closed.
type observedRows struct {
	Rows
	end func(error) // nil once it was called
}

// Next implements Rows.
func (r *observedRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.ended()
	return false
}

// Close implements Rows.
func (r *observedRows) Close() {
	r.Rows.Close()
	r.ended()
}

func (r *observedRows) ended() {
	if r.end == nil {
		return
	}
	r.end(r.Err())
	r.end = nil
}

// Connections are the connections of a pool: those of PostgreSQL, or those that read on SQLite.
type Connections struct{ Used, Limit int }

// Connections returns how many connections are in use now.
func (d *DB) Connections() Connections { return d.engine.connections() }

func (e *sqliteEngine) connections() Connections {
	return Connections{Used: readerCount - len(e.readers.free), Limit: readerCount}
}

func (e *postgresEngine) connections() Connections {
	stat := e.pool.Stat()
	return Connections{Used: int(stat.AcquiredConns()), Limit: int(stat.MaxConns())}
}
