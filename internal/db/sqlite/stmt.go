package sqlite

import (
	"context"
	"fmt"
	"strconv"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"steward/internal/db/slab"
)

// Stmt is a prepared statement of a connection.
type Stmt struct {
	conn    *Conn
	ptr     uintptr
	columns int
	// order tells for each parameter which argument it gets: SQLite numbers $2 before $1 if the text says it first.
	order []int
	args  int
}

func (s *Stmt) parameters() error {
	tls := s.conn.tls
	s.columns = int(sqlite3.Xsqlite3_column_count(tls, s.ptr))
	s.order = make([]int, sqlite3.Xsqlite3_bind_parameter_count(tls, s.ptr))
	for i := range s.order {
		s.order[i] = i
		if name := sqlite3.Xsqlite3_bind_parameter_name(tls, s.ptr, int32(i+1)); name != 0 {
			text := libc.GoString(name)
			n, err := strconv.Atoi(text[1:])
			if err != nil || n < 1 {
				return fmt.Errorf("sqlite: the parameter %s is not a number", text)
			}
			s.order[i] = n - 1
		}
		s.args = max(s.args, s.order[i]+1)
	}
	return nil
}

// Close gives up the statement.
func (s *Stmt) Close() { sqlite3.Xsqlite3_finalize(s.conn.tls, s.ptr) }

// Exec runs the statement to its end and tells how many rows it changed.
func (s *Stmt) Exec(args ...any) (changed int64, err error) {
	if err := s.bind(args); err != nil {
		return 0, err
	}
	for more := true; more; {
		if more, err = s.step(); err != nil {
			return 0, err
		}
	}
	return sqlite3.Xsqlite3_changes64(s.conn.tls, s.conn.db), nil
}

// Query runs the statement up to its first row. When ctx ends it is cut short, there or at a later row, with the error of ctx.
func (s *Stmt) Query(ctx context.Context, args ...any) (*Rows, error) {
	if err := s.bind(args); err != nil {
		return nil, err
	}
	r := &Rows{st: s, ctx: ctx}
	if ctx.Done() != nil {
		r.watch()
	}
	r.first = r.step()
	return r, r.err
}

// step makes the next row. After the last one, or an error, the statement is at its beginning again and holds no lock.
func (s *Stmt) step() (more bool, err error) {
	rc := sqlite3.Xsqlite3_step(s.conn.tls, s.ptr)
	if rc == sqlite3.SQLITE_ROW {
		return true, nil
	}
	if rc != sqlite3.SQLITE_DONE {
		err = s.conn.fault(rc)
	}
	s.reset()
	return false, err
}

func (s *Stmt) reset() {
	sqlite3.Xsqlite3_reset(s.conn.tls, s.ptr) // says the error of the last step again
	s.conn.arena.trim()
}

// Rows are the answer of a statement, one row at a time.
type Rows struct {
	st    *Stmt // nil when they have ended
	ctx   context.Context
	first bool // the first row was made and not yet asked for
	err   error
	slab  slab.Slab
	// unwatch is there if ctx can end. It returns when the statement will not be interrupted any more.
	unwatch func()
}

func (r *Rows) watch() {
	done := make(chan struct{})
	conn := r.st.conn
	stop := context.AfterFunc(r.ctx, func() {
		sqlite3.Xsqlite3_interrupt(conn.tls, conn.db)
		close(done)
	})
	r.unwatch = func() {
		if !stop() {
			<-done
		}
	}
}

// Next goes to the next row, and closes the rows when there is none.
func (r *Rows) Next() bool {
	if r.first {
		r.first = false
		return true
	}
	return r.st != nil && r.step()
}

func (r *Rows) step() bool {
	more, err := r.st.step()
	if more {
		return true
	}
	if Code(err) == sqlite3.SQLITE_INTERRUPT && r.ctx.Err() != nil {
		err = r.ctx.Err()
	}
	r.err = err
	r.end()
	return false
}

// Scan copies the columns of the row into variables: see scan.go for their types.
func (r *Rows) Scan(dest ...any) error {
	if r.st == nil {
		return fmt.Errorf("sqlite: Scan without a row")
	}
	return r.scan(dest)
}

// Err is what ended the rows early.
func (r *Rows) Err() error { return r.err }

// Close ends the rows, wherever they are.
func (r *Rows) Close() {
	if r.st != nil {
		r.st.reset()
		r.end()
	}
}

func (r *Rows) end() {
	if r.unwatch != nil {
		r.unwatch()
	}
	r.st, r.first = nil, false
}
