package db

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Bulk is a table of values for one statement, for the hot paths that write many rows at once. The
// same text works on both databases: {v} stands for the table, and v.due_at for the field DueAt's
// column. If T is not a struct, the table has one column, v.value. Fields are text, numbers,
// booleans or bytes, or pointers to them; a nil pointer, and nil bytes, are NULL. PostgreSQL gets an
// array for each column that the text names (unnest). SQLite gets rows (VALUES) in a few chunk
// sizes, so that their statements stay prepared.
//
// UPDATE and DELETE have {FROM v} or {USING v} before their WHERE. SQLite runs them row by row, with
// the values in place of the columns: for a join with VALUES it would first list all rows that it is
// going to change, and then look up each of them again. For a table with one column, `key {IN v}`
// means rows whose key is among its values, which is faster on PostgreSQL than a join.
type Bulk[T any] []T

// Send runs Tx.Send with a statement over all rows.
func (b Bulk[T]) Send(tx *Tx, text string) error {
	return b.each(tx, text, func(text string, args []any) error { return tx.Send(text, args...) })
}

// Exec runs Tx.Exec with a statement over all rows.
func (b Bulk[T]) Exec(tx *Tx, text string) (affected int64, err error) {
	err = b.each(tx, text, func(text string, args []any) error {
		n, err := tx.Exec(text, args...)
		affected += n
		return err
	})
	return affected, err
}

// Changed runs an UPDATE or DELETE without RETURNING. It returns the numbers, counted from 0 and
// ascending, of the rows that changed something.
func (b Bulk[T]) Changed(tx *Tx, text string) (rows []int, err error) {
	if tx.Dialect() == Postgres {
		rows, err = CollectBulk(tx, b, Value[int], text+" RETURNING v_row - 1")
		slices.Sort(rows)
		return rows, err
	}
	row := 0
	err = b.each(tx, text, func(text string, args []any) error {
		n, err := tx.Exec(text, args...)
		if n > 0 {
			rows = append(rows, row)
		}
		row++
		return err
	})
	return rows, err
}

// CollectBulk runs Collect with a statement over a Bulk's rows.
func CollectBulk[R, T any](q Querier, b Bulk[R], scan func(Row) (T, error), text string) ([]T, error) {
	var all []T
	err := b.each(q, text, func(text string, args []any) error {
		some, err := Collect(q, scan, text, args...)
		all = append(all, some...)
		return err
	})
	return all, err
}

// each calls do for each statement that text needs to cover all rows.
func (b Bulk[T]) each(q Querier, text string, do func(text string, args []any) error) error {
	if len(b) == 0 {
		return nil
	}
	key := planKey{q.Dialect(), reflect.TypeFor[T](), text}
	plan := q.plans().of(key, func() *plan {
		numbered, names := numberColumns(text)
		kinds, fields := columnsOf(key.row, names)
		made := newPlan(key.dialect, kinds, numbered)
		made.fields = fields
		return made
	})
	values := make([]any, 0, len(b)*len(plan.kinds))
	for i := range b {
		row := reflect.ValueOf(&b[i]).Elem()
		if plan.fields == nil {
			values = append(values, valueOf(row))
		}
		for _, index := range plan.fields {
			values = append(values, valueOf(row.FieldByIndex(index)))
		}
	}
	return plan.each(values, do)
}

// numberColumns replaces the columns v.name in a text by v.column1 and so on, and returns the names
// in this order.
func numberColumns(text string) (numbered string, names []string) {
	var out strings.Builder
	for {
		at := strings.Index(text, "v.")
		if at < 0 {
			out.WriteString(text)
			return out.String(), names
		}
		end := at + len("v.")
		for end < len(text) && isNameChar(text[end]) {
			end++
		}
		if at > 0 && isNameChar(text[at-1]) { // v ends another name
			out.WriteString(text[:end])
			text = text[end:]
			continue
		}
		name := text[at+len("v.") : end]
		number := slices.Index(names, name)
		if number < 0 {
			number = len(names)
			names = append(names, name)
		}
		out.WriteString(text[:at] + "v.column" + strconv.Itoa(number+1))
		text = text[end:]
	}
}

func isNameChar(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// kind is a column's type, named as in PostgreSQL. The comments give the Go type.
type kind string

const (
	kindText  kind = "text"    // string
	kindInt   kind = "bigint"  // int64
	kindFloat kind = "float8"  // float64
	kindBytes kind = "bytea"   // []byte
	kindBool  kind = "boolean" // bool
)

// kindOf returns a Go type's kind.
func kindOf(t reflect.Type) kind {
	switch t.Kind() {
	case reflect.String:
		return kindText
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return kindInt
	case reflect.Float64:
		return kindFloat
	case reflect.Bool:
		return kindBool
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return kindBytes
		}
	}
	panic(fmt.Sprintf("db: %s is no type of a column", t))
}

// valueOf converts a value to its kind's Go type, or to nil for NULL.
func valueOf(v reflect.Value) any {
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	case reflect.Float64:
		return v.Float()
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return valueOf(v.Elem())
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		return v.Bytes()
	}
	return v.Int()
}
