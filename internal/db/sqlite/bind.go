package sqlite

import (
	"fmt"
	"math"
	"reflect"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

// bind gives the parameters their values: text, bytes, whole numbers, floats, truth values, pointers to them, and types made of them. Nil,
// also a nil pointer and nil bytes, is NULL.
func (s *Stmt) bind(args []any) error {
	if len(args) != s.args {
		return fmt.Errorf("sqlite: %d arguments for %d parameters", len(args), s.args)
	}
	// One more, so that an empty text has an address too: without one it would be NULL.
	if err := s.conn.arena.take(Size(args) + 1); err != nil {
		return err
	}
	for i, n := range s.order {
		rc, err := s.bindOne(int32(i+1), args[n])
		if err != nil {
			return fmt.Errorf("sqlite: argument %d: %w", n+1, err)
		}
		if rc != sqlite3.SQLITE_OK {
			return s.conn.fault(rc)
		}
	}
	return nil
}

func (s *Stmt) bindOne(i int32, arg any) (rc int32, err error) {
	tls := s.conn.tls
	switch v := arg.(type) {
	case nil:
		return sqlite3.Xsqlite3_bind_null(tls, s.ptr, i), nil
	case string:
		return sqlite3.Xsqlite3_bind_text(tls, s.ptr, i, s.conn.arena.put(v), int32(len(v)), 0), nil
	case int64:
		return sqlite3.Xsqlite3_bind_int64(tls, s.ptr, i, v), nil
	case int:
		return sqlite3.Xsqlite3_bind_int64(tls, s.ptr, i, int64(v)), nil
	case bool:
		return sqlite3.Xsqlite3_bind_int64(tls, s.ptr, i, libc.Int64FromInt32(libc.BoolInt32(v))), nil
	case []byte:
		if v == nil {
			return sqlite3.Xsqlite3_bind_null(tls, s.ptr, i), nil
		}
		return sqlite3.Xsqlite3_bind_blob(tls, s.ptr, i, s.conn.arena.put(unsafe.String(unsafe.SliceData(v), len(v))), int32(len(v)), 0), nil
	case float64:
		return sqlite3.Xsqlite3_bind_double(tls, s.ptr, i, v), nil
	}
	plain, err := plain(arg)
	if err != nil {
		return 0, err
	}
	return s.bindOne(i, plain)
}

// plain makes one of the types that bindOne knows of a pointer to one or a type made of one.
func plain(arg any) (any, error) {
	v := reflect.ValueOf(arg)
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		return v.Elem().Interface(), nil
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if v.Uint() <= math.MaxInt64 {
			return int64(v.Uint()), nil
		}
		return nil, fmt.Errorf("%d is too large", v.Uint())
	case reflect.Float32, reflect.Float64:
		return v.Float(), nil
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Bytes(), nil
		}
	}
	return nil, fmt.Errorf("%T is no type of a column", arg)
}

// Size is how many bytes the texts and blobs among arguments have.
func Size(args []any) int {
	n := 0
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		case *string:
			if v != nil {
				n += len(*v)
			}
		case nil, int64, int, bool, float64, *int64:
		default:
			n += sizeOfOther(arg)
		}
	}
	return n
}

func sizeOfOther(arg any) int {
	v := reflect.ValueOf(arg)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() == reflect.String || v.Kind() == reflect.Slice {
		return v.Len()
	}
	return 0
}

// arena is the memory, outside of Go's, that the texts and bytes of one statement's arguments are copied to. Arguments stay where they are
// until those of the next statement take their place.
type arena struct {
	tls  *libc.TLS
	base uintptr
	cap  int
	used int
}

const (
	arenaLeast = 4 << 10
	// arenaMost is what a connection keeps; more is given back after the statement that needed it.
	arenaMost = 256 << 10
)

// take makes room, and forgets what was there.
func (a *arena) take(need int) error {
	a.used = 0
	if need <= a.cap {
		return nil
	}
	a.free()
	room := max(arenaLeast, need)
	if a.base = libc.Xmalloc(a.tls, types.Size_t(room)); a.base == 0 {
		return errNoMemory
	}
	a.cap = room
	return nil
}

// put copies and tells where to.
func (a *arena) put(text string) uintptr {
	to := a.base + uintptr(a.used)
	copy(unsafe.Slice((*byte)(at(to)), len(text)), text)
	a.used += len(text)
	return to
}

func (a *arena) trim() {
	if a.cap > arenaMost {
		a.free()
	}
}

func (a *arena) free() {
	libc.Xfree(a.tls, a.base)
	a.base, a.cap = 0, 0
}
