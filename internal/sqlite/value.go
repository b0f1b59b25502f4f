package sqlite

import (
	"database/sql"
	"fmt"
	"math"
	"reflect"
	"strconv"

	driver "zombiezen.com/go/sqlite"
)

// bind binds a statement's arguments. Parameters are $1, $2 and so on, each as often as needed, or
// all nameless.
func bind(stmt *driver.Stmt, args []any) error {
	used := 0
	for param := 1; param <= stmt.BindParamCount(); param++ {
		n, err := argumentOf(stmt, param)
		if err != nil {
			return err
		}
		used = max(used, n)
		if n > len(args) {
			continue
		}
		if err := Bind(stmt, param, args[n-1]); err != nil {
			return fmt.Errorf("sqlite: argument %d: %w", n, err)
		}
	}
	if used != len(args) {
		return fmt.Errorf("sqlite: %d arguments for %d parameters", len(args), used)
	}
	return nil
}

// argumentOf returns the number of a parameter's argument. SQLite numbers parameters as they come in
// the text, so that $2 may be its first one.
func argumentOf(stmt *driver.Stmt, param int) (int, error) {
	name := stmt.BindParamName(param)
	if name == "" {
		return param, nil
	}
	n, err := strconv.Atoi(name[1:])
	if err != nil || n < 1 {
		return 0, fmt.Errorf("sqlite: parameter %s is not a number", name)
	}
	return n, nil
}

// Bind binds an argument to a parameter, from 1. A nil slice is NULL.
func Bind(stmt *driver.Stmt, param int, arg any) error {
	switch v := arg.(type) {
	case nil:
		stmt.BindNull(param)
	case string:
		stmt.BindText(param, v)
	case int64:
		stmt.BindInt64(param, v)
	case bool:
		stmt.BindBool(param, v)
	case float64:
		stmt.BindFloat(param, v)
	case []byte:
		if v == nil {
			stmt.BindNull(param)
			return nil
		}
		stmt.BindBytes(param, v)
	default:
		basic, err := basicValue(reflect.ValueOf(arg))
		if err != nil {
			return err
		}
		return Bind(stmt, param, basic)
	}
	return nil
}

// basicValue returns the value behind a pointer or a named type.
func basicValue(v reflect.Value) (any, error) {
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
	return nil, fmt.Errorf("unsupported type %s", v.Type())
}

// scan copies a row's columns into variables. It converts nothing: text is not a number, and NULL
// needs a pointer to a pointer, or bytes.
func scan(stmt *driver.Stmt, dest []any) error {
	if columns := stmt.ColumnCount(); columns != len(dest) {
		return fmt.Errorf("sqlite: %d variables for %d columns", len(dest), columns)
	}
	for i, d := range dest {
		if err := (column{stmt, i}).scan(d); err != nil {
			return fmt.Errorf("sqlite: column %d: %w", i+1, err)
		}
	}
	return nil
}

// column is a column in the current row.
type column struct {
	stmt  *driver.Stmt
	index int
}

func (c column) scan(dest any) (err error) {
	switch d := dest.(type) {
	case *string:
		*d, err = c.text()
	case *int64:
		*d, err = c.int()
	case *bool:
		*d, err = c.bool()
	case *[]byte:
		*d, err = c.bytes()
	case *float64:
		*d, err = c.float()
	case *any:
		*d, err = c.any()
	case sql.Scanner:
		var value any
		if value, err = c.any(); err == nil {
			err = d.Scan(value)
		}
	default:
		err = c.scanInto(reflect.ValueOf(dest))
	}
	return err
}

// scanInto scans into pointers to pointers and into named types.
func (c column) scanInto(dest reflect.Value) error {
	if dest.Kind() != reflect.Pointer || dest.IsNil() {
		return fmt.Errorf("%s is not a pointer to a variable", dest.Kind())
	}
	to := dest.Elem()
	switch to.Kind() {
	case reflect.Pointer:
		if c.kind() == driver.TypeNull {
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
		v, err := c.bool()
		to.SetBool(v)
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
	return fmt.Errorf("unsupported type %s", to.Type())
}

func (c column) kind() driver.ColumnType { return c.stmt.ColumnType(c.index) }

func (c column) text() (string, error) {
	if kind := c.kind(); kind != driver.TypeText && kind != driver.TypeBlob {
		return "", fmt.Errorf("%s is not text", kind)
	}
	return c.stmt.ColumnText(c.index), nil
}

// bytes returns nil for NULL, and the bytes of text.
func (c column) bytes() ([]byte, error) {
	switch kind := c.kind(); kind {
	case driver.TypeNull:
		return nil, nil
	case driver.TypeText, driver.TypeBlob:
		b := make([]byte, c.stmt.ColumnLen(c.index))
		c.stmt.ColumnBytes(c.index, b)
		return b, nil
	default:
		return nil, fmt.Errorf("%s is not bytes", kind)
	}
}

func (c column) int() (int64, error) {
	if kind := c.kind(); kind != driver.TypeInteger {
		return 0, fmt.Errorf("%s is not an integer", kind)
	}
	return c.stmt.ColumnInt64(c.index), nil
}

func (c column) bool() (bool, error) {
	n, err := c.int()
	return n != 0, err
}

func (c column) float() (float64, error) {
	if kind := c.kind(); kind != driver.TypeFloat && kind != driver.TypeInteger {
		return 0, fmt.Errorf("%s is not a number", kind)
	}
	return c.stmt.ColumnFloat(c.index), nil
}

// Value returns a column from the current row, from 0, as nil, int64, float64, string or []byte.
func Value(stmt *driver.Stmt, i int) any {
	v, _ := column{stmt, i}.any() // every kind of column has a value
	return v
}

func (c column) any() (any, error) {
	switch c.kind() {
	case driver.TypeInteger:
		return c.int()
	case driver.TypeFloat:
		return c.float()
	case driver.TypeText:
		return c.text()
	case driver.TypeBlob:
		return c.bytes()
	}
	return nil, nil
}
