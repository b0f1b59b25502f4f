package sqlite

import (
	"errors"
	"reflect"
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Hooks are called while a statement of a connection runs, by the goroutine that uses the connection.
type Hooks struct {
	// Progress is called every few instructions. The statement is interrupted unless it returns true.
	Progress func() bool
	// Busy is called when another connection has a lock, with the number of calls before. It reports
	// whether to try again.
	Busy func(count int) bool
	// Commit is called before a transaction is written.
	Commit func()
}

// progressSteps is the number of SQLite's instructions between two calls of Progress. They take a few
// microseconds, unless one of them calls a function with a large value.
const progressSteps = 100

// hooks has the Hooks of each open connection by SQLite's handle, which SQLite passes to the functions
// below.
var hooks sync.Map // of uintptr to *Hooks

// SetHooks has SQLite call hooks until the connection is closed. The library has no method for that and
// does not show its handle.
func (c *Conn) SetHooks(h *Hooks) error {
	field := reflect.ValueOf(c.Conn).Elem().FieldByName("conn")
	if !field.IsValid() || field.Kind() != reflect.Uintptr {
		return errors.New("this version of the SQLite library is not supported")
	}
	c.hooked = uintptr(field.Uint())
	hooks.Store(c.hooked, h)
	c.tls = libc.NewTLS()
	lib.Xsqlite3_progress_handler(c.tls, c.hooked, progressSteps, pointer(onProgress), c.hooked)
	lib.Xsqlite3_busy_handler(c.tls, c.hooked, pointer(onBusy), c.hooked)
	lib.Xsqlite3_commit_hook(c.tls, c.hooked, pointer(onCommit), c.hooked)
	return nil
}

// removeHooks forgets the hooks of a connection that is closed.
func (c *Conn) removeHooks() {
	if c.tls != nil {
		hooks.Delete(c.hooked)
		c.tls.Close()
	}
}

// ClearRowID has LastInsertRowID return 0 until the next row is inserted. The connection must have
// hooks.
func (c *Conn) ClearRowID() { lib.Xsqlite3_set_last_insert_rowid(c.tls, c.hooked, 0) }

// pointer returns a function as the translated SQLite expects it, as the library does it.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

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
