package libsql

import (
	"context"
	"strings"

	"zombiezen.com/go/sqlite"
)

// column is a column of a result.
type column struct {
	name string
	// decltype is the declared type of the table's column, or "".
	decltype string
}

// statement is a prepared statement.
type statement struct {
	*sqlite.Stmt
	access  access
	verb    verb
	columns []column
	kept    bool
}

// sink takes the result of a statement. columns is called once, before the rows.
type sink struct {
	columns func([]column) error
	row     func(*sqlite.Stmt, int) error
}

// prepare prepares the first statement of a text and returns what follows it. It returns nil if there
// is none.
func (c *conn) prepare(ctx context.Context, sql string) (*statement, string, error) {
	sql = skipSpace(sql)
	if sql == "" {
		return nil, "", nil
	}
	if strings.IndexByte(sql, 0) >= 0 {
		return nil, "", failf("SQL_PARSE_ERROR", "the SQL text has a NUL character")
	}
	if len(sql) > c.db.engine.limits.SQL {
		return nil, "", failf("SQLITE_TOOBIG", "the SQL text is longer than %d bytes", c.db.engine.limits.SQL)
	}
	c.refresh()
	if st, ok := c.statements.Get(sql); ok {
		return st, "", nil
	}
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	st, rest, err := c.compile(ctx, sql)
	if err != nil {
		return nil, "", explain(ctx, c.explainDenied(err))
	}
	if rest == "" {
		c.keep(sql, st)
	}
	return st, rest, nil
}

// compile has SQLite compile the first statement of a text.
func (c *conn) compile(ctx context.Context, sql string) (*statement, string, error) {
	defer func() { c.db.use.time.Add(int64(c.turn.end())) }()
	if err := c.turn.begin(ctx); err != nil {
		return nil, "", err
	}
	c.auth.access = access{}
	c.auth.denied = ""
	stmt, trailing, err := c.PrepareTransient(sql)
	if err != nil {
		return nil, "", err
	}
	st := &statement{Stmt: stmt, access: c.auth.access, verb: verbOf(sql)}
	st.access.writes = st.access.writes || st.verb == beginVerb || st.verb == vacuumVerb
	st.columns = c.columns(stmt, sql[:len(sql)-trailing])
	if ctx.Err() != nil { // the columns may be incomplete
		_ = st.Finalize()
		c.forget()
		return nil, "", sqlite.ResultInterrupt.ToError()
	}
	return st, skipSpace(sql[len(sql)-trailing:]), nil
}

// explainDenied says what the authorizer refused.
func (c *conn) explainDenied(err error) error {
	if c.auth.denied == "" || sqlite.ErrCode(err).ToPrimary() != sqlite.ResultAuth {
		return err
	}
	return failf("SQLITE_AUTH", "not authorized: %s", c.auth.denied)
}

// refresh forgets what was prepared for another schema.
func (c *conn) refresh() {
	current := c.db.schema.Load()
	if c.changed || c.generation != current {
		c.forget()
		c.generation = current
	}
}

// keep keeps a statement for later, unless its text is long.
func (c *conn) keep(sql string, st *statement) {
	if len(sql) > maxKept || st.access.schema || st.verb == vacuumVerb {
		return
	}
	st.kept = true
	c.statements.Put(sql, st)
}

// done makes a statement ready for its next use, or finalizes it.
func (c *conn) done(st *statement) {
	if !st.kept {
		_ = st.Finalize() // repeats the error of Step
		return
	}
	_ = st.Reset() // repeats the error of Step
	_ = st.ClearBindings()
}

// run runs a statement with its arguments to its end. It waits for other writers if the statement writes, and rolls the
// transaction back if the statement has to be interrupted. Its errors are failures.
func (c *conn) run(ctx context.Context, st *statement, to sink) (err error) {
	end := c.db.engine.beginStatement(ctx)
	defer func() { end(err) }()
	if err := c.admit(ctx, st); err != nil {
		c.done(st)
		return explain(ctx, err)
	}
	defer c.settle()
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	c.changed = c.changed || st.access.schema
	c.private = c.private || st.access.private
	step := func() error { return c.stepThrough(ctx, st, to) }
	if returning := st.access.changes && len(st.columns) > 0 && st.verb == otherVerb; returning {
		step = func() error { return c.atomically(func() error { return c.stepThrough(ctx, st, to) }) }
	}
	err = step()
	if err == nil {
		c.reading = c.reading || st.verb == readVerb
		return nil
	}
	if ctx.Err() != nil {
		c.rollback()
	}
	return explain(ctx, err)
}

// admit waits until a statement may run.
func (c *conn) admit(ctx context.Context, st *statement) error {
	if ctx.Err() != nil {
		return sqlite.ResultInterrupt.ToError()
	}
	if !st.access.writes {
		return nil
	}
	if c.reading {
		return failf("SQLITE_READONLY", "SQLite error: attempt to write in a read-only transaction")
	}
	if c.db.engine.disk.Low(c.db.engine.now()) {
		return c.db.use.refuse(errDiskFull)
	}
	return c.lock(ctx)
}

// atomically undoes a statement that returns rows of what it has written if they cannot be returned.
// SQLite writes all of them before it returns the first.
func (c *conn) atomically(step func() error) error {
	if err := c.Exec("SAVEPOINT steward_returning"); err != nil {
		return err
	}
	if err := step(); err != nil {
		_ = c.Exec("ROLLBACK TO steward_returning") // fails if SQLite has rolled back the transaction
		_ = c.Exec("RELEASE steward_returning")
		return err
	}
	return c.Exec("RELEASE steward_returning")
}

// affected returns the number of rows that the statement that ran last has changed.
func (c *conn) affected(did access) int64 {
	if !did.changes || did.schema {
		return 0
	}
	return int64(c.Changes())
}

// stepThrough steps through the rows of a statement until the context ends.
func (c *conn) stepThrough(ctx context.Context, st *statement, to sink) error {
	defer c.done(st)
	c.auth.vacuum = st.verb == vacuumVerb
	defer func() { c.auth.vacuum = false }()
	defer func() { c.db.use.statement(c.turn.end()) }()
	if err := c.turn.begin(ctx); err != nil {
		return err
	}
	c.SetInterrupt(ctx.Done())
	defer c.SetInterrupt(nil)
	if err := to.columns(st.columns); err != nil {
		return err
	}
	for {
		more, err := st.Step()
		if err != nil {
			return c.explainDenied(err)
		}
		if !more {
			return nil
		}
		if st.DataCount() != len(st.columns) {
			return failf("SQLITE_SCHEMA", "SQLite error: database schema has changed")
		}
		if err := to.row(st.Stmt, len(st.columns)); err != nil {
			return err
		}
	}
}
