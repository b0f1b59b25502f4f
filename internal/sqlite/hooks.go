package sqlite

import (
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
	driver "zombiezen.com/go/sqlite"
)

// Hooks are called while a connection runs a statement, on the goroutine that uses the connection.
type Hooks struct {
	// Progress is called every few instructions. Unless it returns true, the statement is
	// interrupted.
	Progress func() bool
	// Busy is called when another connection has a lock, with the number of earlier calls. It
	// reports whether to try again.
	Busy func(count int) bool
	// Commit is called before a transaction is written.
	Commit func()
}

// progressSteps is the number of SQLite's instructions between two calls to Progress. They take a
// few microseconds, unless one of them calls a function with a large value.
const progressSteps = 100

// SQLite passes numbers to the functions that it calls, such as its handle for a connection.
var (
	// handles maps the number in a connection's URI to its handle, while it is being opened.
	handles sync.Map // int64 → uintptr
	// hooks maps each open connection's handle to its Hooks.
	hooks sync.Map // uintptr → *Hooks

	lastNumber atomic.Int64
	register   = sync.OnceValues(registerCallbacks)
)

// numberParameter names the URI parameter with a connection's number.
const numberParameter = "connection"

// callbacks has the addresses of the functions that SQLite calls.
type callbacks struct{ opened, progress, busy, commit uintptr }

// registerCallbacks makes SQLite call onOpened for each connection in the process.
func registerCallbacks() (*callbacks, error) {
	tls := libc.NewTLS()
	defer tls.Close()
	all := &callbacks{
		opened:   callback(tls, onOpened),
		progress: callback(tls, onProgress),
		busy:     callback(tls, onBusy),
		commit:   callback(tls, onCommit),
	}
	if code := driver.ResultCode(lib.Xsqlite3_auto_extension(tls, all.opened)); !code.IsSuccess() {
		return nil, fmt.Errorf("sqlite: register an extension: %w", code.ToError())
	}
	return all, nil
}

// callback returns a declared function's address in the form that the translated SQLite uses: the
// address of a word that holds the code's address. The word is never freed.
func callback(tls *libc.TLS, f any) uintptr {
	word := libc.Xcalloc(tls, 1, 8)
	libc.AtomicStorePUintptr(word, reflect.ValueOf(f).Pointer())
	return word
}

// OpenWithHooks opens an existing file as Open does, and lets SQLite call hooks until the connection
// is closed.
//
// The library has no method for that and hides SQLite's handle for the connection. SQLite passes it
// to onOpened, which knows the connection by a number in the URI.
func OpenWithHooks(path string, pragmas []string, h *Hooks) (*Conn, error) {
	all, err := register()
	if err != nil {
		return nil, err
	}
	number := lastNumber.Add(1)
	query := url.Values{numberParameter: {strconv.FormatInt(number, 10)}}
	uri := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query.Encode()}
	c, err := open(uri.String(), driver.OpenReadWrite|driver.OpenURI, pragmas)
	handle, _ := handles.LoadAndDelete(number)
	if err != nil {
		return nil, err
	}
	c.setHooks(all, handle.(uintptr), h)
	return c, nil
}

func (c *Conn) setHooks(all *callbacks, handle uintptr, h *Hooks) {
	hooks.Store(handle, h)
	c.hooked = handle
	c.tls = libc.NewTLS()
	lib.Xsqlite3_progress_handler(c.tls, handle, progressSteps, all.progress, handle)
	lib.Xsqlite3_busy_handler(c.tls, handle, all.busy, handle)
	lib.Xsqlite3_commit_hook(c.tls, handle, all.commit, handle)
}

// removeHooks forgets a closed connection's hooks.
func (c *Conn) removeHooks() {
	if c.tls != nil {
		hooks.Delete(c.hooked)
		c.tls.Close()
	}
}

// ClearRowID makes LastInsertRowID return 0 until the next insert. The connection must have hooks.
func (c *Conn) ClearRowID() { lib.Xsqlite3_set_last_insert_rowid(c.tls, c.hooked, 0) }

// SetDefensive refuses statements that let a client damage the file, such as PRAGMA writable_schema.
// The connection must have hooks.
//
// It replaces the library's method of this name, which passes one argument where SQLite reads two.
// SQLite takes the second one for an address and writes to it, unless it is 0.
func (c *Conn) SetDefensive(on bool) error {
	value := int32(0)
	if on {
		value = 1
	}
	args := libc.NewVaList(value, uintptr(0))
	if args == 0 {
		return driver.ResultNoMem.ToError()
	}
	defer libc.Xfree(c.tls, args)
	return driver.ResultCode(lib.Xsqlite3_db_config(c.tls, c.hooked, lib.SQLITE_DBCONFIG_DEFENSIVE, args)).ToError()
}

// onOpened keeps the handle of a connection that has a number. SQLite passes the handle first.
func onOpened(tls *libc.TLS, handle, _, _ uintptr) int32 {
	parameter, err := libc.CString(numberParameter)
	if err != nil {
		return lib.SQLITE_NOMEM
	}
	defer libc.Xfree(tls, parameter)
	file := lib.Xsqlite3_db_filename(tls, handle, 0)
	if number := lib.Xsqlite3_uri_int64(tls, file, parameter, 0); number != 0 {
		handles.Store(number, handle)
	}
	return lib.SQLITE_OK
}

func hooksOf(handle uintptr) *Hooks {
	h, _ := hooks.Load(handle)
	return h.(*Hooks)
}

func onProgress(_ *libc.TLS, handle uintptr) int32 {
	if hooksOf(handle).Progress() {
		return 0
	}
	return 1
}

func onBusy(_ *libc.TLS, handle uintptr, count int32) int32 {
	if hooksOf(handle).Busy(int(count)) {
		return 1
	}
	return 0
}

// onCommit returns 0: otherwise SQLite would roll back.
func onCommit(_ *libc.TLS, handle uintptr) int32 {
	hooksOf(handle).Commit()
	return 0
}
