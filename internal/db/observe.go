package db

import "context"

// query runs a query outside a transaction, and tells the observer when its rows end.
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

// observedRows tells the observer once they were read to the end, or closed.
type observedRows struct {
	Rows
	end func(error) // nil once called
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

// Connections counts a pool's connections: all to PostgreSQL, or the readers on SQLite.
type Connections struct{ Used, Limit int }

// Connections counts the connections in use now.
func (d *DB) Connections() Connections { return d.engine.connections() }

func (e *sqliteEngine) connections() Connections {
	return Connections{Used: readerCount - len(e.readers.free), Limit: readerCount}
}

func (e *postgresEngine) connections() Connections {
	stat := e.pool.Stat()
	return Connections{Used: int(stat.AcquiredConns()), Limit: int(stat.MaxConns())}
}
