package sqlite

import (
	"fmt"
	"reflect"
	"unsafe"

	sqlite3 "modernc.org/sqlite/lib"
)

// scan copies the columns of the row into what dest points to: text and bytes (from either), whole numbers, floats, truth values, types
// made of them, pointers to them (nil for NULL), and any. It refuses NULL for what cannot be nil, and never converts text to numbers or
// back.
func (s *Stmt) scan(dest []any) error {
	if len(dest) != s.columns {
		return fmt.Errorf("sqlite: %d variables for %d columns", len(dest), s.columns)
	}
	for i, d := range dest {
		if err := s.scanOne(int32(i), d); err != nil {
			return fmt.Errorf("sqlite: column %d: %w", i+1, err)
		}
	}
	return nil
}

func (s *Stmt) scanOne(i int32, dest any) (err error) {
	switch d := dest.(type) {
	case *string:
		*d, err = s.text(i)
	case *int64:
		*d, err = s.int(i)
	case *int:
		var n int64
		n, err = s.int(i)
		*d = int(n)
	case *bool:
		var n int64
		n, err = s.int(i)
		*d = n != 0
	case *[]byte:
		*d, err = s.bytes(i)
	case **string:
		*d, err = optional(s, i, s.text)
	case **int64:
		*d, err = optional(s, i, s.int)
	case *any:
		*d, err = s.value(i)
	default:
		return s.scanOther(i, reflect.ValueOf(dest))
	}
	return err
}

func optional[T any](s *Stmt, i int32, of func(int32) (T, error)) (*T, error) {
	if s.kind(i) == sqlite3.SQLITE_NULL {
		return nil, nil
	}
	v, err := of(i)
	return &v, err
}

// scanOther is for types made of the usual ones.
func (s *Stmt) scanOther(i int32, dest reflect.Value) error {
	if dest.Kind() != reflect.Pointer || dest.IsNil() {
		return fmt.Errorf("%s is not a pointer to a variable", dest.Kind())
	}
	to := dest.Elem()
	switch to.Kind() {
	case reflect.Pointer:
		if s.kind(i) == sqlite3.SQLITE_NULL {
			to.SetZero()
			return nil
		}
		to.Set(reflect.New(to.Type().Elem()))
		return s.scanOne(i, to.Interface())
	case reflect.String:
		v, err := s.text(i)
		to.SetString(v)
		return err
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v, err := s.int(i)
		if err == nil && to.OverflowInt(v) {
			return fmt.Errorf("%d is too large for %s", v, to.Type())
		}
		to.SetInt(v)
		return err
	case reflect.Bool:
		v, err := s.int(i)
		to.SetBool(v != 0)
		return err
	case reflect.Float32, reflect.Float64:
		v, err := s.float(i)
		to.SetFloat(v)
		return err
	case reflect.Slice:
		if to.Type().Elem().Kind() == reflect.Uint8 {
			v, err := s.bytes(i)
			to.SetBytes(v)
			return err
		}
	}
	return fmt.Errorf("%s is no type of a column", to.Type())
}

func (s *Stmt) kind(i int32) int32 { return sqlite3.Xsqlite3_column_type(s.conn.tls, s.ptr, i) }

func (s *Stmt) text(i int32) (string, error) {
	b, err := s.view(i)
	return string(b), err
}

// bytes gives a copy; nil is NULL.
func (s *Stmt) bytes(i int32) ([]byte, error) {
	if s.kind(i) == sqlite3.SQLITE_NULL {
		return nil, nil
	}
	b, err := s.view(i)
	return append([]byte{}, b...), err
}

// view gives the text or bytes where SQLite has them, until the next row.
func (s *Stmt) view(i int32) ([]byte, error) {
	switch kind := s.kind(i); kind {
	case sqlite3.SQLITE_TEXT, sqlite3.SQLITE_BLOB:
		p := sqlite3.Xsqlite3_column_blob(s.conn.tls, s.ptr, i) // of text too: it is UTF-8 as it is
		return unsafe.Slice((*byte)(at(p)), sqlite3.Xsqlite3_column_bytes(s.conn.tls, s.ptr, i)), nil
	default:
		return nil, fmt.Errorf("it is %s, not text", kindNames[kind])
	}
}

func (s *Stmt) int(i int32) (int64, error) {
	if kind := s.kind(i); kind != sqlite3.SQLITE_INTEGER {
		return 0, fmt.Errorf("it is %s, not a whole number", kindNames[kind])
	}
	return sqlite3.Xsqlite3_column_int64(s.conn.tls, s.ptr, i), nil
}

func (s *Stmt) float(i int32) (float64, error) {
	if kind := s.kind(i); kind != sqlite3.SQLITE_FLOAT && kind != sqlite3.SQLITE_INTEGER {
		return 0, fmt.Errorf("it is %s, not a number", kindNames[kind])
	}
	return sqlite3.Xsqlite3_column_double(s.conn.tls, s.ptr, i), nil
}

func (s *Stmt) value(i int32) (any, error) {
	switch s.kind(i) {
	case sqlite3.SQLITE_INTEGER:
		return s.int(i)
	case sqlite3.SQLITE_FLOAT:
		return s.float(i)
	case sqlite3.SQLITE_TEXT:
		return s.text(i)
	case sqlite3.SQLITE_BLOB:
		return s.bytes(i)
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
