package sqlite

import (
	"database/sql"
	"fmt"
	"reflect"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"steward/internal/db/slab"
)

// scan copies the columns of the row into what dest points to: text and bytes (from either), whole numbers, floats, truth values, types
// made of them, pointers to them (nil for NULL), and any. It refuses NULL for what cannot be nil, and never converts text to numbers or
// back. A sql.RawBytes is not a copy: it is good until the next row.
func (r *Rows) scan(dest []any) error {
	if len(dest) != r.st.columns {
		return fmt.Errorf("sqlite: %d variables for %d columns", len(dest), r.st.columns)
	}
	c := column{tls: r.st.conn.tls, slab: &r.slab}
	for i, d := range dest {
		// One call finds the value, what is asked of it then takes no lock. Nobody else uses the connection.
		c.value = sqlite3.Xsqlite3_column_value(c.tls, r.st.ptr, int32(i))
		if err := c.scan(d); err != nil {
			return fmt.Errorf("sqlite: column %d: %w", i+1, err)
		}
	}
	return nil
}

// column is a column of the row.
type column struct {
	tls   *libc.TLS
	value uintptr
	slab  *slab.Slab
}

func (c column) scan(dest any) (err error) {
	switch d := dest.(type) {
	case *string:
		var b []byte
		if b, err = c.view(); err == nil {
			c.slab.Set(d, b)
		}
	case *int64:
		*d, err = c.int()
	case *int:
		var n int64
		n, err = c.int()
		*d = int(n)
	case *bool:
		var n int64
		n, err = c.int()
		*d = n != 0
	case *[]byte:
		*d, err = c.bytes()
	case *sql.RawBytes:
		if *d = nil; !c.null() {
			*d, err = c.view()
		}
	case **string:
		err = c.optional(d)
	case **int64:
		if *d = nil; !c.null() {
			*d = new(int64)
			**d, err = c.int()
		}
	case *any:
		*d, err = c.any()
	default:
		return c.scanOther(reflect.ValueOf(dest))
	}
	return err
}

func (c column) optional(to **string) error {
	if c.null() {
		*to = nil
		return nil
	}
	b, err := c.view()
	if err == nil {
		c.slab.SetOptional(to, b)
	}
	return err
}

// scanOther is for types made of the usual ones.
func (c column) scanOther(dest reflect.Value) error {
	if dest.Kind() != reflect.Pointer || dest.IsNil() {
		return fmt.Errorf("%s is not a pointer to a variable", dest.Kind())
	}
	to := dest.Elem()
	switch to.Kind() {
	case reflect.Pointer:
		if c.null() {
			to.SetZero()
			return nil
		}
		to.Set(reflect.New(to.Type().Elem()))
		return c.scan(to.Interface())
	case reflect.String:
		v, err := c.text()
		to.SetString(v)
		return err
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v, err := c.int()
		if err == nil && to.OverflowInt(v) {
			return fmt.Errorf("%d is too large for %s", v, to.Type())
		}
		to.SetInt(v)
		return err
	case reflect.Bool:
		v, err := c.int()
		to.SetBool(v != 0)
		return err
	case reflect.Float32, reflect.Float64:
		v, err := c.float()
		to.SetFloat(v)
		return err
	case reflect.Slice:
		if to.Type().Elem().Kind() == reflect.Uint8 {
			v, err := c.bytes()
			to.SetBytes(v)
			return err
		}
	}
	return fmt.Errorf("%s is no type of a column", to.Type())
}

func (c column) kind() int32 { return sqlite3.Xsqlite3_value_type(c.tls, c.value) }

func (c column) null() bool { return c.kind() == sqlite3.SQLITE_NULL }

func (c column) text() (string, error) {
	b, err := c.view()
	return string(b), err
}

// bytes gives a copy; nil is NULL.
func (c column) bytes() ([]byte, error) {
	if c.null() {
		return nil, nil
	}
	b, err := c.view()
	return c.slab.Bytes(b), err
}

// view gives the text or bytes where SQLite has them, until the next row; never nil.
func (c column) view() ([]byte, error) {
	switch kind := c.kind(); kind {
	case sqlite3.SQLITE_TEXT, sqlite3.SQLITE_BLOB:
		p := sqlite3.Xsqlite3_value_blob(c.tls, c.value) // of text too: it is UTF-8 as it is
		if p == 0 {
			return []byte{}, nil
		}
		return unsafe.Slice((*byte)(at(p)), sqlite3.Xsqlite3_value_bytes(c.tls, c.value)), nil
	default:
		return nil, fmt.Errorf("it is %s, not text", kindNames[kind])
	}
}

func (c column) int() (int64, error) {
	if kind := c.kind(); kind != sqlite3.SQLITE_INTEGER {
		return 0, fmt.Errorf("it is %s, not a whole number", kindNames[kind])
	}
	return sqlite3.Xsqlite3_value_int64(c.tls, c.value), nil
}

func (c column) float() (float64, error) {
	if kind := c.kind(); kind != sqlite3.SQLITE_FLOAT && kind != sqlite3.SQLITE_INTEGER {
		return 0, fmt.Errorf("it is %s, not a number", kindNames[kind])
	}
	return sqlite3.Xsqlite3_value_double(c.tls, c.value), nil
}

func (c column) any() (any, error) {
	switch c.kind() {
	case sqlite3.SQLITE_INTEGER:
		return c.int()
	case sqlite3.SQLITE_FLOAT:
		return c.float()
	case sqlite3.SQLITE_TEXT:
		return c.text()
	case sqlite3.SQLITE_BLOB:
		return c.bytes()
	}
	return nil, nil
}

var kindNames = map[int32]string{
	sqlite3.SQLITE_INTEGER: "a whole number",
	sqlite3.SQLITE_FLOAT:   "a float",
	sqlite3.SQLITE_TEXT:    "text",
	sqlite3.SQLITE_BLOB:    "bytes",
	sqlite3.SQLITE_NULL:    "NULL",
}
