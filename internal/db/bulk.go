package db

import (
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Bulk is a table of values for one statement, for the hot paths that write many rows at once. The text
// of the statement is the same for both databases: {v} stands for the table, and v.due_at for the column
// of the field DueAt. If T is not a struct, the table has one column, v.value. Fields are text, integers,
// booleans or bytes, or pointers to them; a nil pointer, and nil bytes, are NULL. PostgreSQL gets an array
// for each column that the text names (unnest). SQLite gets rows (VALUES) in chunks of few sizes, so that
// their statements stay prepared.
//
// UPDATE and DELETE have {FROM v} or {USING v} before their WHERE. SQLite runs them row by row, with
// the values in place of the columns: for a join with VALUES it would first list all rows that it is
// going to change, and then look up each of them again. For a table of one column, `key {IN v}` means
// rows whose key is among its values, which is faster on PostgreSQL than a join.
type Bulk[T any] []T

// Send runs Tx.Send with a statement over all rows.
func (b Bulk[T]) Send(tx *Tx, text string) error {
	return b.each(tx.Dialect(), text, func(text string, args []any) error { return tx.Send(text, args...) })
}

// Exec runs Tx.Exec with a statement over all rows.
func (b Bulk[T]) Exec(tx *Tx, text string) (affected int64, err error) {
	err = b.each(tx.Dialect(), text, func(text string, args []any) error {
		n, err := tx.Exec(text, args...)
		affected += n
		return err
	})
	return affected, err
}

// Changed runs an UPDATE or DELETE without RETURNING. It returns the numbers, from 0 on and in
// ascending order, of the rows that changed something.
func (b Bulk[T]) Changed(tx *Tx, text string) (rows []int, err error) {
	if tx.Dialect() == Postgres {
		rows, err = CollectBulk(tx, b, Value[int], text+" RETURNING v_row - 1")
		slices.Sort(rows)
		return rows, err
	}
	row := 0
	err = b.each(SQLite, text, func(text string, args []any) error {
		n, err := tx.Exec(text, args...)
		if n > 0 {
			rows = append(rows, row)
		}
		row++
		return err
	})
	return rows, err
}

// CollectBulk runs Collect with a statement over the rows of a Bulk.
func CollectBulk[R, T any](q Querier, b Bulk[R], scan func(Row) (T, error), text string) ([]T, error) {
	var all []T
	err := b.each(q.Dialect(), text, func(text string, args []any) error {
		some, err := Collect(q, scan, text, args...)
		all = append(all, some...)
		return err
	})
	return all, err
}

// each calls do for each statement that it takes to run text over all rows.
func (b Bulk[T]) each(dialect Dialect, text string, do func(text string, args []any) error) error {
	if len(b) == 0 {
		return nil
	}
	text, names := numberColumns(text)
	return b.table(names).each(dialect, text, do)
}

// numberColumns replaces the columns v.name of a text by v.column1 and so on, and returns their names in
// this order.
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
		if at > 0 && isNameChar(text[at-1]) { // v is the end of another name
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

// table returns the columns with these names.
func (b Bulk[T]) table(names []string) *table {
	row := reflect.TypeFor[T]()
	if row.Kind() != reflect.Struct {
		t := &table{kinds: []kind{kindOf(row)}, values: make([]any, len(b))}
		for i := range b {
			t.values[i] = valueOf(reflect.ValueOf(&b[i]).Elem())
		}
		return t
	}
	fields := make([][]int, len(names))
	t := &table{kinds: make([]kind, len(names)), values: make([]any, 0, len(b)*len(names))}
	for i, name := range names {
		joined := strings.ReplaceAll(name, "_", "")
		field, ok := row.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, joined) })
		if !ok {
			panic("db: " + row.String() + " has no field for v." + name)
		}
		fields[i] = field.Index
		t.kinds[i] = kindOf(field.Type)
	}
	for i := range b {
		row := reflect.ValueOf(&b[i]).Elem()
		for _, index := range fields {
			t.values = append(t.values, valueOf(row.FieldByIndex(index)))
		}
	}
	return t
}

// kind is the type of a column, named as in PostgreSQL. The values of text are string, and so on.
type kind string

const (
	kindText  kind = "text"    // string
	kindInt   kind = "bigint"  // int64
	kindBytes kind = "bytea"   // []byte
	kindBool  kind = "boolean" // bool
)

// kindOf returns the kind of a Go type.
func kindOf(t reflect.Type) kind {
	switch t.Kind() {
	case reflect.String:
		return kindText
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return kindInt
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

// valueOf returns a value as the type of its kind, or nil for NULL.
func valueOf(v reflect.Value) any {
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
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

// table is a table of values whose columns are called v.column1, v.column2 and so on.
type table struct {
	kinds  []kind
	values []any // row after row
}

// send runs Tx.Send with a statement over all rows.
func (t *table) send(tx *Tx, text string) error {
	return t.each(tx.Dialect(), text, func(text string, args []any) error { return tx.Send(text, args...) })
}

// each calls do for each statement that it takes to run text over all rows.
func (t *table) each(dialect Dialect, text string, do func(text string, args []any) error) error {
	if len(t.values) == 0 {
		return nil
	}
	before, rest, _ := strings.Cut(text, "{")
	mark, after, _ := strings.Cut(rest, "}")
	join, found := strings.CutSuffix(mark, "v")
	if !found {
		panic("db: a statement over many rows needs {v}, {FROM v}, {USING v} or {IN v}: " + text)
	}
	all := before + join + t.unnest() + after
	single := strings.ReplaceAll(before+after, "v.column", "?")
	if join == "IN " {
		all = before + "= ANY($1)" + after
		single = before + "= ?" + after
	}
	if dialect == Postgres {
		return do(all, t.arrays())
	}
	for left := t.values; len(left) > 0; {
		rows := 1
		text := single
		if join == "" {
			rows = chunkOf(len(left) / len(t.kinds))
			text = before + t.rows(rows) + after
		}
		chunk := left[:rows*len(t.kinds)]
		left = left[len(chunk):]
		if err := do(text, chunk); err != nil {
			return err
		}
	}
	return nil
}

// chunkOf returns the number of rows of the next statement on SQLite: a power of two, so that there are
// few texts to prepare.
func chunkOf(left int) int { return min(64, 1<<(bits.Len(uint(left))-1)) }

// rows returns the table on SQLite, which names its columns column1 and so on by itself. Parameters are
// nameless: SQLite looks up the name of each one in a list of all, which takes long in a large statement.
func (t *table) rows(n int) string {
	row := "(" + strings.Repeat("?,", len(t.kinds)-1) + "?)"
	return "(VALUES " + strings.Repeat(row+",", n-1) + row + ") AS v"
}

// unnest returns the table on PostgreSQL, with the number of each row.
func (t *table) unnest() string {
	var args, names strings.Builder
	for i, kind := range t.kinds {
		if i > 0 {
			args.WriteString(", ")
			names.WriteString(", ")
		}
		args.WriteString("$" + strconv.Itoa(i+1) + "::" + string(kind) + "[]")
		names.WriteString("column" + strconv.Itoa(i+1))
	}
	return "unnest(" + args.String() + ") WITH ORDINALITY AS v(" + names.String() + ", v_row)"
}

func (t *table) arrays() []any {
	arrays := make([]any, len(t.kinds))
	for column, kind := range t.kinds {
		switch kind {
		case kindText:
			arrays[column] = nullable[string](t, column)
		case kindInt:
			arrays[column] = nullable[int64](t, column)
		case kindBool:
			arrays[column] = nullable[bool](t, column)
		case kindBytes:
			arrays[column], _ = valuesOf[[]byte](t, column)
		}
	}
	return arrays
}

// nullable returns a column, as pointers if there is a NULL: pgx encodes values much faster.
func nullable[T any](t *table, column int) any {
	values, null := valuesOf[T](t, column)
	if !null {
		return values
	}
	pointers := make([]*T, len(values))
	for row := range values {
		if t.values[row*len(t.kinds)+column] != nil {
			pointers[row] = &values[row]
		}
	}
	return pointers
}

// valuesOf returns the values of a column, with zeros for NULL, and whether there is one.
func valuesOf[T any](t *table, column int) (values []T, null bool) {
	values = make([]T, len(t.values)/len(t.kinds))
	for row := range values {
		value, ok := t.values[row*len(t.kinds)+column].(T)
		values[row] = value
		null = null || !ok
	}
	return values, null
}
