package db

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"zombiezen.com/go/sqlite"
)

// maxStatements bounds the prepared statements of a connection. The product has a few hundred texts.
const maxStatements = 512

// connection is a connection with its prepared statements. It keeps them itself, since the library
// looks at each statement that it keeps whenever a context is set: with 200 of them a lookup by key
// took 20 µs instead of 9.
type connection struct {
	*sqlite.Conn
	statements map[string]*sqlite.Stmt
}

// connect opens an existing file.
func connect(path string, pragmas []string) (*connection, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	conn.SetBusyTimeout(busyTimeout)
	c := &connection{Conn: conn, statements: map[string]*sqlite.Stmt{}}
	for _, pragma := range pragmas {
		if err := c.exec("PRAGMA "+pragma, nil); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

func (c *connection) close() error {
	for text := range c.statements {
		c.forget(text)
	}
	return c.Close()
}

// boundLimit finds limits that are parameters. SQLite plans by their values, and so prepares the
// statement again whenever one is bound: an empty page took 27 µs of CPU instead of 8. It does not look
// into expressions.
var boundLimit = regexp.MustCompile(`\b(LIMIT|OFFSET) (\$\d+)`)

// prepare returns a statement without bindings, ready to run.
func (c *connection) prepare(text string) (*sqlite.Stmt, error) {
	if stmt, ok := c.statements[text]; ok {
		return stmt, nil
	}
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("db: empty statement")
	}
	stmt, trailing, err := c.PrepareTransient(boundLimit.ReplaceAllString(text, "$1 ($2 + 0)"))
	if err != nil {
		return nil, err
	}
	if trailing > 0 {
		return nil, errors.Join(fmt.Errorf("db: %q is not one statement", text), stmt.Finalize())
	}
	if len(c.statements) >= maxStatements {
		for other := range c.statements {
			c.forget(other)
			break
		}
	}
	c.statements[text] = stmt
	return stmt, nil
}

func (c *connection) forget(text string) {
	_ = c.statements[text].Finalize() // repeats the error of its last run
	delete(c.statements, text)
}

// exec runs a statement to its end.
func (c *connection) exec(text string, args []any) error {
	rows, err := c.query(text, args, func(err error) error { return err })
	if err != nil {
		return err
	}
	for rows.Next() {
		continue
	}
	return rows.Err()
}

// scanFirst scans the first row of a statement.
func (c *connection) scanFirst(text string, dest ...any) error {
	rows, err := c.query(text, nil, func(err error) error { return err })
	if err != nil {
		return err
	}
	return firstRow{rows}.Scan(dest...)
}

// query runs a statement up to its first row; one that writes has written everything then. ended is
// called once with the error of the statement, nil as a rule, and returns that of the rows. It is also
// called if query returns an error.
func (c *connection) query(text string, args []any, ended func(error) error) (*sqliteRows, error) {
	stmt, err := c.prepare(text)
	if err != nil {
		return nil, ended(err)
	}
	r := &sqliteRows{stmt: stmt, ended: ended}
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

// sqliteRows are the rows of a running statement.
type sqliteRows struct {
	stmt *sqlite.Stmt // nil when the rows have ended
	// ahead is whether the row for the next call of Next was already read.
	ahead bool
	err   error
	ended func(error) error
}

func (r *sqliteRows) Next() bool {
	if r.ahead {
		r.ahead = false
		return true
	}
	return r.stmt != nil && r.step()
}

// step reads a row, or ends the rows.
func (r *sqliteRows) step() bool {
	more, err := r.stmt.Step()
	if err != nil || !more {
		r.end(err)
		return false
	}
	return true
}

var errNoRow = errors.New("db: Scan without a row")

func (r *sqliteRows) Scan(dest ...any) error {
	if r.stmt == nil {
		return errNoRow
	}
	return scan(r.stmt, dest)
}

func (r *sqliteRows) Err() error { return r.err }

func (r *sqliteRows) Close() {
	if r.stmt != nil {
		r.end(nil)
	}
}

// end resets the statement, so that it holds neither locks nor values.
func (r *sqliteRows) end(err error) {
	_ = r.stmt.Reset() // repeats err
	_ = r.stmt.ClearBindings()
	r.stmt = nil
	r.ahead = false
	r.err = r.ended(err)
}
