package libsql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	driver "zombiezen.com/go/sqlite"

	"steward/internal/budget"
	"steward/internal/sqlite"
)

const (
	// maxStatements caps the prepared statements that a connection keeps, and maxKept the length of their
	// text.
	maxStatements = 64
	maxKept       = 4 << 10

	pageSize = 4096
)

// conn is a connection to a database's file. Only one goroutine uses it at a time.
type conn struct {
	*sqlite.Conn
	db         *database
	auth       authorizer
	statements sqlite.Statements[*statement]
	// types caches the columns' declared types by table.
	types map[string]map[string]string
	// generation is the schema's generation when we prepared statements and read types.
	generation uint64
	// turn holds a slot in the queue while a statement runs.
	turn turn
	// slot counts the connection among those in use, or among those kept for later.
	slot *budget.Charge

	reading bool      // the transaction is read-only
	locked  bool      // holds the database's write lock
	changed bool      // the transaction changes the schema
	private bool      // other clients must not use the connection
	began   time.Time // when the transaction began; zero if there is none
}

// connect opens a connection to the database's file. The file must exist.
func connect(db *database) (*conn, error) {
	pages := db.engine.limits.FileSize / pageSize
	pragmas := append(slices.Clone(pragmasOfClients),
		fmt.Sprintf("max_page_count = %d", pages), fmt.Sprintf("temp.max_page_count = %d", pages))
	c := &conn{
		db: db, turn: turn{queue: db.engine.queue, org: db.org, part: db.id},
		statements: sqlite.Statements[*statement]{Max: maxStatements}, types: map[string]map[string]string{},
	}
	hooks := &sqlite.Hooks{Progress: c.turn.progress, Busy: c.turn.busy, Commit: c.turn.pause}
	opened, err := sqlite.OpenWithHooks(db.path, pragmas, hooks)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", explainOpen(err))
	}
	c.Conn = opened
	if err := c.prepareForClients(); err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", explainOpen(err)), c.close())
	}
	return c, nil
}

// pragmasOfClients apply to all connections, in addition to limits.
var pragmasOfClients = []string{
	"journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "trusted_schema = OFF",
	"temp_store = FILE", "cache_size = -512", "journal_size_limit = 16777216", "cell_size_check = ON",
}

// prepareForClients sets everything that protects the file, the process and its other files. SQLite loads
// no extensions unless it is told to.
func (c *conn) prepareForClients() error {
	c.setLimits(c.db.engine.limits)
	if err := c.SetDefensive(true); err != nil {
		return err
	}
	return c.SetAuthorizer(&c.auth)
}

func (c *conn) setLimits(l Limits) {
	c.Limit(driver.LimitLength, int32(l.Value))
	c.Limit(driver.LimitSQLLength, int32(l.SQL))
	c.Limit(driver.LimitColumn, int32(l.Columns))
	c.Limit(driver.LimitExprDepth, int32(l.Depth))
	c.Limit(driver.LimitFunctionArg, 127)
	c.Limit(driver.LimitLikePatternLength, 1000) // comparing takes time proportional to text times pattern
	c.Limit(driver.LimitTriggerDepth, 100)
	c.Limit(driver.LimitAttached, 1) // VACUUM needs one
	c.Limit(driver.LimitWorkerThreads, 0)
}

// truncateLog copies the write-ahead log into the file and truncates it, unless somebody needs it.
func (c *conn) truncateLog() error {
	ctx, cancel := context.WithTimeout(context.Background(), tick)
	defer cancel()
	c.turn.ctx = ctx
	defer c.turn.end()
	c.SetInterrupt(ctx.Done())
	defer c.SetInterrupt(nil)
	c.auth.own = true
	defer func() { c.auth.own = false }()
	return c.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
}

// forget finalizes the prepared statements.
func (c *conn) forget() {
	c.statements.Clear()
	clear(c.types)
}

func (c *conn) close() error {
	c.rollback()
	c.forget()
	return c.Close()
}

// rollback ends the transaction, if there is one.
func (c *conn) rollback() {
	if !c.AutocommitEnabled() {
		_ = c.Exec("ROLLBACK") // fails only if SQLite has already rolled back
	}
	c.settle()
}

// settle updates the transaction's state after a statement. Once the transaction has ended, it lets the
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

// lock takes the database's write lock. Writers get it in the order in which they ask. SQLite itself
// would make them poll, and 16 writers starve each other.
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
		return errLocked
	case <-ctx.Done():
		return driver.ResultInterrupt.ToError()
	}
}

// deadline returns a context that ends when a statement that starts now must stop.
func (c *conn) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	limits := c.db.engine.limits
	if !c.began.IsZero() {
		if left := limits.Transaction - c.db.engine.now().Sub(c.began); left < limits.Statement {
			return context.WithTimeoutCause(ctx, left, errTransactionTime)
		}
	}
	return context.WithTimeoutCause(ctx, limits.Statement, errStatementTime)
}
