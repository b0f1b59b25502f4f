// Package sqlite is a connection to a SQLite file: SQLite's own functions, as modernc.org/sqlite/lib has them in Go, behind four types.
//
// Data moves through it like this. Open gives a Conn, Prepare a Stmt of it. Exec and Query copy their arguments into one piece of memory
// that the connection keeps for that (bind.go), where SQLite reads them without another copy; Next makes the next row, Scan copies its
// columns straight into the variables of the caller (scan.go), the texts of many rows into one piece of memory (slab). Nothing is locked,
// boxed or converted on the way: that is why this package exists. Through database/sql and the driver of the same library a page of rows
// took three times, and a row to write twice the time.
//
// A Conn and what comes from it belong to one goroutine at a time, and one statement of it is used at a time: its arguments and its rows
// end when the next one begins.
package sqlite

import (
	"errors"
	"fmt"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

// Conn is an open file.
type Conn struct {
	tls   *libc.TLS
	db    uintptr
	cells uintptr // two pointers' room, for what SQLite writes to an address
	arena arena
}

// Open opens a file that exists. Each pragma is the text after the word PRAGMA, such as "journal_mode(WAL)". An error is an *Error.
func Open(path string, pragmas ...string) (*Conn, error) {
	c := &Conn{tls: libc.NewTLS()}
	c.arena.tls = c.tls
	c.cells = libc.Xmalloc(c.tls, 2*types.Size_t(unsafe.Sizeof(uintptr(0))))
	if c.cells == 0 {
		c.tls.Close()
		return nil, errNoMemory
	}
	if err := c.open(path, pragmas); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Conn) open(path string, pragmas []string) error {
	name, err := libc.CString(path)
	if err != nil {
		return errNoMemory
	}
	defer libc.Xfree(c.tls, name)
	rc := sqlite3.Xsqlite3_open_v2(c.tls, name, c.cells, sqlite3.SQLITE_OPEN_READWRITE|sqlite3.SQLITE_OPEN_NOMUTEX, 0)
	c.db = *(*uintptr)(at(c.cells)) // given also when it fails, for its message
	if rc != sqlite3.SQLITE_OK {
		return c.fault(rc)
	}
	sqlite3.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
	for _, pragma := range pragmas {
		if err := c.run("PRAGMA " + pragma); err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) run(text string) error {
	st, err := c.Prepare(text)
	if err != nil {
		return err
	}
	defer st.Close()
	_, err = st.Exec()
	return err
}

// Close closes the file. The statements must be closed before: SQLite keeps a connection with open statements alive, and its locks with it.
func (c *Conn) Close() error {
	rc := sqlite3.Xsqlite3_close_v2(c.tls, c.db)
	c.arena.free()
	libc.Xfree(c.tls, c.cells)
	c.tls.Close()
	if rc != sqlite3.SQLITE_OK {
		return &Error{Code: int(rc), Text: "closing"}
	}
	return nil
}

// Prepare compiles one statement. Its parameters are $1, $2 and so on, or ? one after another.
func (c *Conn) Prepare(text string) (*Stmt, error) {
	sql, err := libc.CString(text)
	if err != nil {
		return nil, errNoMemory
	}
	defer libc.Xfree(c.tls, sql)
	tail := c.cells + unsafe.Sizeof(uintptr(0))
	rc := sqlite3.Xsqlite3_prepare_v3(c.tls, c.db, sql, int32(len(text)), sqlite3.SQLITE_PREPARE_PERSISTENT, c.cells, tail)
	if rc != sqlite3.SQLITE_OK {
		return nil, c.fault(rc)
	}
	st := &Stmt{conn: c, ptr: *(*uintptr)(at(c.cells))}
	if st.ptr == 0 || *(*uintptr)(at(tail)) != sql+uintptr(len(text)) {
		st.Close()
		return nil, fmt.Errorf("sqlite: %q is not one statement", text)
	}
	if err := st.parameters(); err != nil {
		st.Close()
		return nil, err
	}
	return st, nil
}

// Error is what SQLite says when it cannot do something.
type Error struct {
	Code int // the extended result code
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("sqlite: %s (%d)", e.Text, e.Code) }

var errNoMemory = &Error{Code: sqlite3.SQLITE_NOMEM, Text: "out of memory"}

// fault is the error of the call that just gave rc.
func (c *Conn) fault(rc int32) error {
	text := libc.GoString(sqlite3.Xsqlite3_errstr(c.tls, rc))
	if detail := libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db)); detail != text {
		text += ": " + detail
	}
	return &Error{Code: int(rc), Text: text}
}

// Code is the extended result code of an error of this package, else 0.
func Code(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// at makes a pointer of an address that SQLite gave us. It is not memory that Go would move or free.
func at(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
