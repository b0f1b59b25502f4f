package libsql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"

	"steward/internal/budget"
)

const (
	// maxStatements is the number of prepared statements that a connection keeps, maxKept the length of
	// their texts.
	maxStatements = 64
	maxKept       = 4 << 10

	pageSize = 4096
)

// conn is a connection to the file of a database. One goroutine uses it at a time.
type conn struct {
	*sqlite.Conn
	db         *database
	auth       authorizer
	statements map[string]*statement
	// types are the declared types of columns by table, as far as they were needed.
	types map[string]map[string]string
	// generation is that of the schema for which statements and types were read.
	generation uint64
	// turn has a slot in the queue of statements while one runs.
	turn turn
	// slot is the connection's place among those in use, or among those that are kept.
	slot *budget.Charge

	reading bool      // the transaction is read-only
	locked  bool      // holds the write lock of the database
	changed bool      // the transaction changes the schema
	private bool      // must not be used by another client
	began   time.Time // when the transaction began; zero if there is none
}

// connect opens a connection to the database's file, which must exist.
func connect(db *database) (*conn, error) {
	opened, err := sqlite.OpenConn(db.path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	c := &conn{Conn: opened, db: db, turn: turn{queue: db.engine.queue, org: db.org, part: db.id}}
	c.forget()
	if err := c.prepareForClients(); err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", err), c.close())
	}
	return c, nil
}

// prepareForClients sets everything that protects the file, the process and its other files. SQLite
// loads no extensions unless it is told to.
func (c *conn) prepareForClients() error {
	if err := c.turn.install(c.Conn); err != nil {
		return err
	}
	for _, text := range []string{
		"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA foreign_keys = ON", "PRAGMA trusted_schema = OFF",
		"PRAGMA temp_store = FILE", "PRAGMA cache_size = -512", "PRAGMA journal_size_limit = 16777216", "PRAGMA cell_size_check = ON",
		fmt.Sprintf("PRAGMA max_page_count = %d", c.db.engine.limits.FileSize/pageSize),
		fmt.Sprintf("PRAGMA temp.max_page_count = %d", c.db.engine.limits.FileSize/pageSize),
	} {
		if err := c.exec(text); err != nil {
			return err
		}
	}
	c.setLimits(c.db.engine.limits)
	if err := c.SetDefensive(true); err != nil {
		return err
	}
	return c.SetAuthorizer(&c.auth)
}

func (c *conn) setLimits(l Limits) {
	c.Limit(sqlite.LimitLength, int32(l.Value))
	c.Limit(sqlite.LimitSQLLength, int32(l.SQL))
	c.Limit(sqlite.LimitColumn, int32(l.Columns))
	c.Limit(sqlite.LimitExprDepth, int32(l.Depth))
	c.Limit(sqlite.LimitFunctionArg, 127)
	c.Limit(sqlite.LimitLikePatternLength, 1000) // comparing takes as long as text times pattern
	c.Limit(sqlite.LimitTriggerDepth, 100)
	c.Limit(sqlite.LimitAttached, 1) // VACUUM needs one
	c.Limit(sqlite.LimitWorkerThreads, 0)
}

// exec runs a statement of the engine itself to its end.
func (c *conn) exec(text string) error {
	stmt, _, err := c.PrepareTransient(text)
	if err != nil {
		return err
	}
	defer func() { _ = stmt.Finalize() }() // repeats the error of Step
	for {
		more, err := stmt.Step()
		if err != nil || !more {
			return err
		}
	}
}

// truncateLog writes the write-ahead log to the file and truncates it, unless somebody needs it.
func (c *conn) truncateLog() error {
	ctx, cancel := context.WithTimeout(context.Background(), tick)
	defer cancel()
	c.turn.ctx = ctx
	defer c.turn.end()
	c.SetInterrupt(ctx.Done())
	defer c.SetInterrupt(nil)
	c.auth.own = true
	defer func() { c.auth.own = false }()
	return c.exec("PRAGMA wal_checkpoint(TRUNCATE)")
}

// forget finalizes the prepared statements.
func (c *conn) forget() {
	for _, st := range c.statements {
		st.finalize()
	}
	c.statements = map[string]*statement{}
	c.types = map[string]map[string]string{}
}

func (c *conn) close() error {
	c.rollback()
	c.forget()
	defer c.turn.uninstall()
	return c.Close()
}

// rollback ends the transaction, if there is one.
func (c *conn) rollback() {
	if !c.AutocommitEnabled() {
		_ = c.exec("ROLLBACK") // fails only if SQLite has rolled back itself
	}
	c.settle()
}

// settle keeps track of the transaction after a statement. When there is none any more, it lets the
// next writer in.
func (c *conn) settle() {
	if !c.AutocommitEnabled() {
		if c.began.IsZero() {
			c.began = c.db.engine.now()
		}
		return
	}
	c.began = time.Time{}
	c.reading = false
	if c.changed {
		c.changed = false
		c.db.schema.Add(1)
	}
	if c.locked {
		c.locked = false
		<-c.db.writer
	}
}

// lock takes the write lock of the database. Writers take it in the order in which they ask: SQLite
// itself would have them poll, and 16 of them starve each other.
func (c *conn) lock(ctx context.Context) error {
	if c.locked {
		return nil
	}
	timeout := time.NewTimer(c.db.engine.limits.Wait)
	defer timeout.Stop()
	select {
	case c.db.writer <- struct{}{}:
		c.locked = true
		return nil
	case <-timeout.C:
		return failf("SQLITE_BUSY", "SQLite error: database is locked")
	case <-ctx.Done():
		return sqlite.ResultInterrupt.ToError()
	}
}

// deadline returns a context that ends when a statement that starts now has to stop.
func (c *conn) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	limits := c.db.engine.limits
	if !c.began.IsZero() {
		if left := limits.Transaction - c.db.engine.now().Sub(c.began); left < limits.Statement {
			return context.WithTimeoutCause(ctx, left, errTransactionTime)
		}
	}
	return context.WithTimeoutCause(ctx, limits.Statement, errStatementTime)
}
