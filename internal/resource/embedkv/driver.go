package embedkv

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/budget"
)

// conn is the only connection to the file of a store, as database/sql gives it to redka. All its methods
// are called by the goroutine of the store.
//
// Transactions of redka are savepoints of one transaction that begin opens with the first change and
// commit ends, so that the commands of many clients share a commit.
//
// Durability is SQLite's: with a write-ahead log and synchronous=FULL it syncs the log in each commit,
// the directory when it has created the log, and the file before it starts the log anew.
type conn struct {
	db *sqlite.Conn
	// memory is charged for what the current command reads, at most reply bytes.
	memory *budget.Charge
	reply  int

	// open is whether the shared transaction is, and lost why SQLite has rolled it back.
	open bool
	lost error
	// failed is the last error of the current command.
	failed error
	// used is the number of bytes that the current command has read.
	used int
}

// maxCachedArgs is the number of arguments up to which statements are kept. Lists of keys are part of the
// text of redka's statements.
const maxCachedArgs = 8

var (
	errReplyTooLarge = errors.New("ERR the reply is larger than this server allows")
	errUnsupported   = errors.New("not supported")
)

// connect opens the file of a store.
func connect(path string, size int64) (*sqlite.Conn, error) {
	db, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	db.SetBusyTimeout(10 * time.Second) // for backups that read the file
	pragmas := []string{
		"journal_mode = wal", "synchronous = full", "foreign_keys = on", "cache_size = -4000",
		"journal_size_limit = 67108864", fmt.Sprintf("max_page_count = %d", size/4096),
	}
	for _, pragma := range pragmas {
		if err := sqlitex.ExecuteTransient(db, "pragma "+pragma, nil); err != nil {
			_ = db.Close()
			return nil, fmt.Errorf("pragma %s: %w", pragma, err)
		}
	}
	return db, nil
}

// connector gives database/sql the connection of a store.
type connector struct{ conn *conn }

// Connect returns the connection.
func (c connector) Connect(context.Context) (driver.Conn, error) { return c.conn, nil }

// Driver returns nil: there is no other way to get a connection than Connect.
func (c connector) Driver() driver.Driver { return nil }

// Prepare is not supported, since redka does not prepare statements.
func (c *conn) Prepare(string) (driver.Stmt, error) { return nil, errUnsupported }

// Begin is not supported: database/sql calls BeginTx.
func (c *conn) Begin() (driver.Tx, error) { return nil, errUnsupported }

// Close closes the file.
func (c *conn) Close() error { return c.db.Close() }

// BeginTx begins a savepoint of the shared transaction.
func (c *conn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	return c, c.exec("savepoint command")
}

// Commit keeps the changes since BeginTx.
func (c *conn) Commit() error { return c.exec("release command") }

// Rollback undoes the changes since BeginTx. If that fails, as it does after an interrupt, commit undoes
// the whole shared transaction.
func (c *conn) Rollback() error {
	err := c.exec("rollback to command")
	if err == nil {
		err = c.exec("release command")
	}
	if err != nil {
		c.fail(err)
	}
	return err
}

// begin opens the shared transaction, unless it is open.
func (c *conn) begin() error {
	if c.open {
		return c.lost
	}
	if err := c.exec("begin immediate"); err != nil {
		return err
	}
	c.open = true
	return nil
}

// commit ends the shared transaction. Nothing of it is kept if it fails.
func (c *conn) commit() error {
	if !c.open {
		return nil
	}
	err := c.lost
	if err == nil {
		err = c.exec("commit")
	}
	if !c.db.AutocommitEnabled() {
		_ = c.exec("rollback")
	}
	c.open = false
	c.lost = nil
	return err
}

// fail has commit undo the shared transaction.
func (c *conn) fail(reason error) {
	if c.open && c.lost == nil {
		c.lost = reason
	}
}

// check notes whether an error has ended the shared transaction. A full disk and an interrupt do.
func (c *conn) check(err error) error {
	if err != nil {
		c.failed = err
	}
	if err != nil && c.open && c.lost == nil && c.db.AutocommitEnabled() {
		c.lost = err
	}
	return err
}

func (c *conn) exec(query string) error {
	_, err := c.run(query, nil)
	return err
}

// ExecContext runs a statement that changes something.
func (c *conn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	return c.run(query, args)
}

func (c *conn) run(query string, args []driver.NamedValue) (driver.Result, error) {
	rows, err := c.query(query, args)
	if err != nil {
		return nil, c.check(err)
	}
	for more := true; more && err == nil; {
		more, err = rows.stmt.Step()
	}
	changes := c.db.Changes()
	return driver.RowsAffected(changes), c.check(errors.Join(err, rows.Close()))
}

// QueryContext runs a statement that returns rows.
func (c *conn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.query(query, args)
	return rows, c.check(err)
}

func (c *conn) query(query string, args []driver.NamedValue) (*rows, error) {
	stmt, err := c.prepare(query, len(args))
	if err != nil {
		return nil, err
	}
	for i, arg := range args {
		bind(stmt, i+1, arg.Value)
	}
	return &rows{conn: c, stmt: stmt, transient: len(args) > maxCachedArgs}, nil
}

func (c *conn) prepare(query string, args int) (*sqlite.Stmt, error) {
	if args <= maxCachedArgs {
		return c.db.Prepare(query)
	}
	stmt, _, err := c.db.PrepareTransient(query)
	return stmt, err
}

func bind(stmt *sqlite.Stmt, i int, value driver.Value) {
	switch v := value.(type) {
	case int64:
		stmt.BindInt64(i, v)
	case float64:
		stmt.BindFloat(i, v)
	case bool:
		stmt.BindBool(i, v)
	case string:
		stmt.BindText(i, v)
	case []byte:
		stmt.BindBytes(i, v)
	default:
		stmt.BindNull(i)
	}
}

// rows are the rows of a statement.
type rows struct {
	conn      *conn
	stmt      *sqlite.Stmt
	transient bool
}

// Columns returns one name for each column; redka reads them by number.
func (r *rows) Columns() []string { return make([]string, r.stmt.ColumnCount()) }

// Close ends the statement.
func (r *rows) Close() error {
	if r.transient {
		return r.stmt.Finalize()
	}
	_ = r.stmt.Reset() // returns the error of Step again
	return r.stmt.ClearBindings()
}

// Next reads a row. It returns an error if the command has read more than a reply may have.
func (r *rows) Next(dest []driver.Value) error {
	more, err := r.stmt.Step()
	if err != nil {
		return r.conn.check(err)
	}
	if !more {
		return io.EOF
	}
	size := 0
	for i := range dest {
		size += r.stmt.ColumnLen(i) + rowOverhead
	}
	if err := r.conn.charge(size); err != nil {
		return r.conn.check(err)
	}
	for i := range dest {
		dest[i] = column(r.stmt, i)
	}
	return nil
}

// rowOverhead is about what a value takes in memory beside its bytes.
const rowOverhead = 32

// charge counts bytes of the current command.
func (c *conn) charge(n int) error {
	c.used += n
	if c.used > c.reply {
		return errReplyTooLarge
	}
	if c.used < freeMemory {
		return nil
	}
	return take(c.memory, c.used-int(c.memory.Used()))
}

// release begins the count of the next command.
func (c *conn) release() {
	c.memory.Release()
	c.used = 0
	c.failed = nil
}

func column(stmt *sqlite.Stmt, i int) driver.Value {
	switch stmt.ColumnType(i) {
	case sqlite.TypeInteger:
		return stmt.ColumnInt64(i)
	case sqlite.TypeFloat:
		return stmt.ColumnFloat(i)
	case sqlite.TypeText:
		return stmt.ColumnText(i)
	case sqlite.TypeBlob:
		value := make([]byte, stmt.ColumnLen(i))
		stmt.ColumnBytes(i, value)
		return value
	default:
		return nil
	}
}
