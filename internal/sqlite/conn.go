package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"modernc.org/libc"
	driver "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const (
	// maxStatements caps a connection's prepared statements. The product has a few hundred texts.
	maxStatements = 512

	busyTimeout = 10 * time.Second
)

// Conn is a connection with its prepared statements. It keeps them itself, because the library looks
// at every statement that it keeps whenever a context is set: with 200 of them a lookup by key took
// 20 µs instead of 9. Only one goroutine may use it at a time.
type Conn struct {
	*driver.Conn
	statements Statements[*driver.Stmt]
	hooked     uintptr   // the handle under which it has Hooks, or 0
	tls        *libc.TLS // for SQLite calls that the library does not have; nil without Hooks
}

// Open opens an existing file and sets pragmas, such as "journal_mode(WAL)".
func Open(path string, pragmas []string) (*Conn, error) {
	return open(path, driver.OpenReadWrite, pragmas)
}

func open(path string, flags driver.OpenFlags, pragmas []string) (*Conn, error) {
	conn, err := driver.OpenConn(path, flags)
	if err != nil {
		return nil, err
	}
	conn.SetBusyTimeout(busyTimeout)
	c := &Conn{Conn: conn, statements: Statements[*driver.Stmt]{Max: maxStatements}}
	for _, pragma := range pragmas {
		if err := sqlitex.ExecuteTransient(conn, "PRAGMA "+pragma, nil); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

// Close finalizes the prepared statements and closes the connection.
func (c *Conn) Close() error {
	c.statements.Clear()
	defer c.removeHooks()
	return c.Conn.Close()
}

// boundLimit finds limits that are parameters. SQLite plans by their values, and so prepares the
// statement again whenever one is bound: an empty page took 27 µs of CPU instead of 8. It does not
// look into expressions.
var boundLimit = regexp.MustCompile(`\b(LIMIT|OFFSET) (\$\d+)`)

// prepare returns a statement without bindings, ready to run.
func (c *Conn) prepare(text string) (*driver.Stmt, error) {
	if stmt, ok := c.statements.Get(text); ok {
		return stmt, nil
	}
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("sqlite: empty statement")
	}
	stmt, trailing, err := c.PrepareTransient(boundLimit.ReplaceAllString(text, "$1 ($2 + 0)"))
	if err != nil {
		return nil, err
	}
	if trailing > 0 {
		return nil, errors.Join(fmt.Errorf("sqlite: %q is not one statement", text), stmt.Finalize())
	}
	c.statements.Put(text, stmt)
	return stmt, nil
}

// Exec runs a statement to its end.
func (c *Conn) Exec(text string, args ...any) error {
	rows, err := c.Query(text, args, unchanged)
	if err != nil {
		return err
	}
	for rows.Next() {
		continue
	}
	return rows.Err()
}

// ScanFirst scans a statement's first row. It returns sql.ErrNoRows if there is none.
func (c *Conn) ScanFirst(text string, dest ...any) error {
	rows, err := c.Query(text, nil, unchanged)
	if err != nil {
		return err
	}
	defer rows.Close()
	if rows.Next() {
		return rows.Scan(dest...)
	}
	if rows.Err() != nil {
		return rows.Err()
	}
	return sql.ErrNoRows
}

func unchanged(err error) error { return err }

// Query runs a statement up to its first row; one that writes has written everything then. It calls
// ended once, even if Query itself fails, with the statement's error, which is usually nil. The rows
// return the error that ended returns.
func (c *Conn) Query(text string, args []any, ended func(error) error) (*Rows, error) {
	stmt, err := c.prepare(text)
	if err != nil {
		return nil, ended(err)
	}
	r := &Rows{stmt: stmt, ended: ended}
	if err := bind(stmt, args); err != nil {
		r.end(err)
		return nil, r.err
	}
	r.ahead = r.step()
	if r.err != nil {
		return nil, r.err
	}
	return r, nil
}

// Rows is a running statement's rows.
type Rows struct {
	stmt *driver.Stmt // nil when the rows have ended
	// ahead is true if we have already read the row for the next call to Next.
	ahead bool
	err   error
	ended func(error) error
}

// Next reads the next row. It reports whether there is one.
func (r *Rows) Next() bool {
	if r.ahead {
		r.ahead = false
		return true
	}
	return r.stmt != nil && r.step()
}

// step reads a row, or ends the rows.
func (r *Rows) step() bool {
	more, err := r.stmt.Step()
	if err != nil || !more {
		r.end(err)
		return false
	}
	return true
}

var errNoRow = errors.New("sqlite: Scan without a row")

// Scan copies the row's columns into variables.
func (r *Rows) Scan(dest ...any) error {
	if r.stmt == nil {
		return errNoRow
	}
	return scan(r.stmt, dest)
}

// Err returns the error that ended the rows.
func (r *Rows) Err() error { return r.err }

// Close ends the rows. You may call it more than once.
func (r *Rows) Close() {
	if r.stmt != nil {
		r.end(nil)
	}
}

// end resets the statement, so that it holds neither locks nor values.
func (r *Rows) end(err error) {
	_ = r.stmt.Reset() // repeats err
	_ = r.stmt.ClearBindings()
	r.stmt = nil
	r.ahead = false
	r.err = r.ended(err)
}

// Backup copies a database to a new file, as it is at one moment. Others may write to the database
// meanwhile, if it has a write-ahead log. The copy is not synced.
func Backup(from, to string) error {
	source, err := driver.OpenConn(from, driver.OpenReadWrite)
	if err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	defer func() { _ = source.Close() }() // we wrote nothing
	source.SetBusyTimeout(busyTimeout)
	copied, err := open(to, driver.OpenReadWrite|driver.OpenCreate, []string{"journal_mode(OFF)", "synchronous(OFF)"})
	if err != nil {
		return fmt.Errorf("create the copy: %w", err)
	}
	return errors.Join(copyPages(copied.Conn, source), copied.Close())
}

func copyPages(to, from *driver.Conn) error {
	b, err := driver.NewBackup(to, "main", from, "main")
	if err != nil {
		return fmt.Errorf("begin the copy: %w", err)
	}
	_, err = b.Step(-1)
	if err := errors.Join(err, b.Close()); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	return nil
}

// Statements keeps prepared statements by their texts. Once it has Max of them, it drops one for
// each new one.
type Statements[S interface{ Finalize() error }] struct {
	Max    int
	byText map[string]S
}

// Get returns the statement for a text. It reports whether there is one.
func (s *Statements[S]) Get(text string) (S, bool) {
	stmt, ok := s.byText[text]
	return stmt, ok
}

// Put keeps a statement, and finalizes it when it is removed.
func (s *Statements[S]) Put(text string, stmt S) {
	if s.byText == nil {
		s.byText = map[string]S{}
	}
	if len(s.byText) >= s.Max {
		for other := range s.byText {
			s.remove(other)
			break
		}
	}
	s.byText[text] = stmt
}

// Clear removes all statements.
func (s *Statements[S]) Clear() {
	for text := range s.byText {
		s.remove(text)
	}
}

func (s *Statements[S]) remove(text string) {
	_ = s.byText[text].Finalize() // repeats its last run's error
	delete(s.byText, text)
}
