package libsql

import (
	"errors"
	"reflect"
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
	"zombiezen.com/go/sqlite"
)

// turns has the turn of each open connection by SQLite's handle. SQLite passes the handle to the
// functions below, which it calls on the goroutine that uses the connection.
var turns sync.Map // of uintptr to *turn

// progressSteps is the number of SQLite's instructions between two calls of the progress handler. They
// take a few microseconds, unless one of them calls a function with a large value.
const progressSteps = 100

// install has SQLite call a turn while a statement of a connection runs. The library has no method for
// that and does not show its handle.
func (t *turn) install(c *sqlite.Conn) error {
	field := reflect.ValueOf(c).Elem().FieldByName("conn")
	if !field.IsValid() || field.Kind() != reflect.Uintptr {
		return errors.New("this version of the SQLite library is not supported")
	}
	t.handle = uintptr(field.Uint())
	turns.Store(t.handle, t)
	tls := libc.NewTLS()
	defer tls.Close()
	lib.Xsqlite3_progress_handler(tls, t.handle, progressSteps, pointer(onProgress), t.handle)
	lib.Xsqlite3_busy_handler(tls, t.handle, pointer(onBusy), t.handle)
	lib.Xsqlite3_commit_hook(tls, t.handle, pointer(onCommit), t.handle)
	return nil
}

// uninstall forgets the turn of a connection that is closed.
func (t *turn) uninstall() { turns.CompareAndDelete(t.handle, t) }

// pointer returns a function as the translated SQLite expects it, as the library does it.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

func turnOf(handle uintptr) *turn {
	t, _ := turns.Load(handle)
	return t.(*turn)
}

// onProgress is called every few instructions. SQLite interrupts the statement unless it returns 0.
func onProgress(_ *libc.TLS, handle uintptr) int32 {
	if turnOf(handle).progress() {
		return 0
	}
	return 1
}

// onBusy is called when somebody else has a lock, with the number of calls before. SQLite gives up if
// it returns 0.
func onBusy(_ *libc.TLS, handle uintptr, count int32) int32 {
	if turnOf(handle).busy(int(count)) {
		return 1
	}
	return 0
}

// onCommit is called before a transaction is written. SQLite rolls back unless it returns 0.
func onCommit(_ *libc.TLS, handle uintptr) int32 {
	turnOf(handle).pause() // the rest waits for the disk
	return 0
}
