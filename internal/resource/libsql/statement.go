package libsql

import (
	"context"
	"strings"

	"zombiezen.com/go/sqlite"
)

// column is a column in a result.
type column struct {
	name string
	// decltype is the type that the table declares, or "".
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

// sink receives a statement's result. columns is called once, before the rows.
type sink struct {
	columns func([]column) error
	row     func(*sqlite.Stmt, int) error
}

// prepare prepares the first statement in a text and returns the rest. It returns nil if there is no
// statement.
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

// compile compiles the first statement in a text.
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

// explainDenied tells the client what the authorizer refused.
func (c *conn) explainDenied(err error) error {
	if c.auth.denied == "" || sqlite.ErrCode(err).ToPrimary() != sqlite.ResultAuth {
		return err
	}
	return failf("SQLITE_AUTH", "not authorized: %s", c.auth.denied)
}

// refresh forgets statements that were prepared for another schema.
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

// done resets a statement for its next use, or finalizes it.
func (c *conn) done(st *statement) {
	if !st.kept {
		_ = st.Finalize() // it returns Step's error again
		return
	}
	_ = st.Reset() // it returns Step's error again
	_ = st.ClearBindings()
}

// run runs a statement to its end. If the statement writes, run waits for other writers. If it must
// interrupt the statement, it rolls back the transaction. Its errors are failures.
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

// atomically undoes a statement's writes if its rows cannot be returned. SQLite writes all rows before it
// returns the first.
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

// affected returns how many rows the last statement has changed.
func (c *conn) affected(did access) int64 {
	if !did.changes || did.schema {
		return 0
	}
	return int64(c.Changes())
}

// stepThrough reads the statement's rows until the context ends.
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
