package list

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"steward/internal/errs"
	"steward/internal/page"
)

// Order orders a list's rows and makes their cursors. A position has a value for each column: a
// string, an int64 or []byte.
type Order[T any] struct {
	// Columns order the rows. No two rows have the same values.
	Columns []string
	// Ascending lists the row with the smallest values first.
	Ascending bool
	// Begin is a position, if not nil. The list has the rows beyond it.
	Begin []any
	// Cursor returns the cursor after a row.
	Cursor func(T) page.Cursor
	// Position returns a cursor's position, or Invalid for another list's cursor.
	Position func(page.Cursor) ([]any, error)
}

// ByID orders rows by an identifier of some kind, newest first.
func ByID[T any](column, kind string, id func(T) string) Order[T] {
	return ByKey([]string{column}, kind, id, func(id string) []any { return []any{id} })
}

// ByKey is ByID for rows whose columns are not the identifier itself; position returns their values
// for one.
func ByKey[T any](columns []string, kind string, id func(T) string, position func(id string) []any) Order[T] {
	return Order[T]{
		Columns: columns,
		Cursor:  func(row T) page.Cursor { return page.NewCursor(id(row)) },
		Position: func(c page.Cursor) ([]any, error) {
			var last string
			if err := c.Scan(&last); err != nil {
				return nil, err
			}
			if !strings.HasPrefix(last, kind+"_") {
				return nil, errs.InvalidField("query.cursor", "expected a cursor from the next link of this list")
			}
			return position(last), nil
		},
	}
}

// ByTime orders rows by a time, newest first, and rows with the same time by id.
func ByTime[T any, At ~int64](atColumn, idColumn string, key func(T) (at At, id string)) Order[T] {
	return Order[T]{
		Columns: []string{atColumn, idColumn},
		Cursor: func(row T) page.Cursor {
			at, id := key(row)
			return page.NewCursor(int64(at), id)
		},
		Position: func(c page.Cursor) ([]any, error) {
			var at int64
			var id string
			if err := c.Scan(&at, &id); err != nil {
				return nil, err
			}
			return []any{at, id}, nil
		},
	}
}

// start returns the cursor's position, if there is a cursor, but never one before the beginning of
// the list: given both as conditions, SQLite may read all rows between them.
func (o Order[T]) start(c page.Cursor) ([]any, error) {
	if c == "" {
		return o.Begin, nil
	}
	at, err := o.Position(c)
	if err != nil {
		return nil, err
	}
	if o.Begin != nil && o.isBeyond(o.Begin, at) {
		return o.Begin, nil
	}
	return at, nil
}

// isBeyond reports whether a position comes after another one in the list.
func (o Order[T]) isBeyond(position, other []any) bool {
	for i := range position {
		if c := compare(position[i], other[i]); c != 0 {
			return (c > 0) == o.Ascending
		}
	}
	return false
}

func compare(a, b any) int {
	switch a := a.(type) {
	case string:
		return strings.Compare(a, b.(string))
	case int64:
		return cmp.Compare(a, b.(int64))
	case []byte:
		return bytes.Compare(a, b.([]byte))
	}
	panic(fmt.Sprintf("list: a position has a %T", a))
}

// beyond returns the condition that a row comes after a position.
func (o Order[T]) beyond(position []any) SQL {
	operator := ` < `
	if o.Ascending {
		operator = ` > `
	}
	if len(o.Columns) == 1 {
		return Text(o.Columns[0]+operator+`?`, position...)
	}
	parameters := strings.Repeat(`, ?`, len(position))[2:]
	return Text(`(`+o.columns()+`)`+operator+`(`+parameters+`)`, position...)
}

func (o Order[T]) columns() string { return strings.Join(o.Columns, `, `) }

// by returns the ORDER BY clause for a table's columns.
func (o Order[T]) by(prefix string) string {
	direction := ` DESC`
	if o.Ascending {
		direction = ` ASC`
	}
	var terms []string
	for _, column := range o.Columns {
		terms = append(terms, prefix+column+direction)
	}
	return ` ORDER BY ` + strings.Join(terms, `, `)
}

// SQL is a statement or a part of one.
type SQL struct {
	text string
	args []any
}

// Text returns a statement or a part of one. Each ? in the text stands for an argument, which may be
// SQL or Conditions too.
func Text(text string, args ...any) SQL { return SQL{text, args} }

// Statement returns the text with numbered parameters, and the arguments.
func (s SQL) Statement() (text string, args []any) {
	var w writer
	w.add(s)
	return w.text.String(), w.args
}

// Conditions must all hold for a list's rows.
type Conditions []SQL

// Where returns a condition, to which you can add others. Each ? in it stands for an argument.
func Where(condition string, args ...any) Conditions { return Conditions{{condition, args}} }

// Add adds a condition. Each ? in it stands for an argument.
func (c *Conditions) Add(condition string, args ...any) { *c = append(*c, SQL{condition, args}) }

// Equal requires an expression to have a value, unless that is empty.
func (c *Conditions) Equal(expression, value string) {
	if value != "" {
		c.Add(expression+` = ?`, value)
	}
}

type writer struct {
	text strings.Builder
	args []any
}

func (w *writer) add(s SQL) {
	texts := strings.Split(s.text, "?")
	if len(texts) != len(s.args)+1 {
		panic("list: not as many arguments as there are parameters: " + s.text)
	}
	for i, arg := range s.args {
		w.text.WriteString(texts[i])
		w.addArg(arg)
	}
	w.text.WriteString(texts[len(s.args)])
}

func (w *writer) addArg(arg any) {
	switch arg := arg.(type) {
	case SQL:
		w.add(arg)
	case Conditions:
		for i, condition := range arg {
			if i > 0 {
				w.text.WriteString(` AND `)
			}
			w.add(condition)
		}
	default:
		w.args = append(w.args, arg)
		w.text.WriteString("$" + strconv.Itoa(len(w.args)))
	}
}
