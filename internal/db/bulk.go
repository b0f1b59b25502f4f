package db

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Kind is the type of a column of a Bulk, named as in PostgreSQL.
type Kind string

// The kinds, with the Go types that Add takes for them. A nil pointer, and nil bytes, are NULL.
const (
	Text  Kind = "text"    // string, *string
	Int   Kind = "bigint"  // int64
	Bytes Kind = "bytea"   // []byte
	Bool  Kind = "boolean" // bool
)

// Bulk is a table of values for one statement, for the hot paths that write many rows at once. The text
// of the statement is the same for both databases: {v} stands for the table, and v.column1, v.column2
// and so on for its columns. PostgreSQL gets an array for each column (unnest). SQLite gets rows
// (VALUES) in chunks of few sizes, so that their statements stay prepared.
//
// UPDATE and DELETE have {FROM v} or {USING v} before their WHERE. SQLite runs them row by row, with
// the values in place of the columns: for a join with VALUES it would first list all rows that it is
// going to change, and then look up each of them again. For a table of one column, `key {IN v}` means
// rows whose key is among its values, which is faster on PostgreSQL than a join.
type Bulk struct {
	kinds  []Kind
	values []any // row after row
}

// NewBulk returns a table without rows.
func NewBulk(kinds ...Kind) *Bulk { return &Bulk{kinds: kinds} }

// Add appends a row.
func (b *Bulk) Add(values ...any) {
	for i, kind := range b.kinds {
		value := values[i]
		switch v := value.(type) {
		case *string:
			value = nil
			if v != nil {
				value = *v
			}
		case []byte:
			if v == nil {
				value = nil
			}
		}
		if _, number := value.(int64); kind == Int && !number {
			panic("db: a column of kind Int takes int64")
		}
		b.values = append(b.values, value)
	}
}

// kindsOf returns the kinds of values, none of which is NULL.
func kindsOf(values []any) []Kind {
	kinds := make([]Kind, len(values))
	for i, value := range values {
		switch value.(type) {
		case string:
			kinds[i] = Text
		case int64:
			kinds[i] = Int
		case []byte:
			kinds[i] = Bytes
		case bool:
			kinds[i] = Bool
		}
	}
	return kinds
}

// Len returns the number of rows.
func (b *Bulk) Len() int { return len(b.values) / len(b.kinds) }

// Send runs Tx.Send with a statement over all rows.
func (b *Bulk) Send(tx *Tx, text string) error {
	return b.each(tx.Dialect(), text, func(text string, args []any) error { return tx.Send(text, args...) })
}

// Exec runs Tx.Exec with a statement over all rows.
func (b *Bulk) Exec(tx *Tx, text string) (affected int64, err error) {
	err = b.each(tx.Dialect(), text, func(text string, args []any) error {
		n, err := tx.Exec(text, args...)
		affected += n
		return err
	})
	return affected, err
}

// Changed runs an UPDATE or DELETE without RETURNING. It returns the numbers, from 0 on and in
// ascending order, of the rows that changed something.
func (b *Bulk) Changed(tx *Tx, text string) (rows []int, err error) {
	if tx.Dialect() == Postgres {
		rows, err = CollectBulk(tx, b, scanNumber, text+" RETURNING v.number - 1")
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

func scanNumber(row Row) (n int, err error) { return n, row.Scan(&n) }

// CollectBulk runs Collect with a statement over the rows of a Bulk.
func CollectBulk[T any](q Querier, b *Bulk, scan func(Row) (T, error), text string) ([]T, error) {
	var all []T
	err := b.each(q.Dialect(), text, func(text string, args []any) error {
		some, err := Collect(q, scan, text, args...)
		all = append(all, some...)
		return err
	})
	return all, err
}

// each calls do for each statement that it takes to run text over all rows.
func (b *Bulk) each(dialect Dialect, text string, do func(text string, args []any) error) error {
	if len(b.values) == 0 {
		return nil
	}
	before, rest, _ := strings.Cut(text, "{")
	mark, after, _ := strings.Cut(rest, "}")
	join, found := strings.CutSuffix(mark, "v")
	if !found {
		panic("db: a statement over many rows needs {v}, {FROM v}, {USING v} or {IN v}: " + text)
	}
	all := before + join + b.unnest() + after
	single := strings.ReplaceAll(before+after, "v.column", "?")
	if join == "IN " {
		all = before + "= ANY($1)" + after
		single = before + "= ?" + after
	}
	if dialect == Postgres {
		return do(all, b.arrays())
	}
	for left := b.values; len(left) > 0; {
		rows := 1
		text := single
		if join == "" {
			rows = chunkOf(len(left) / len(b.kinds))
			text = before + b.rows(rows) + after
		}
		chunk := left[:rows*len(b.kinds)]
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
func (b *Bulk) rows(n int) string {
	row := "(" + strings.Repeat("?,", len(b.kinds)-1) + "?)"
	return "(VALUES " + strings.Repeat(row+",", n-1) + row + ") AS v"
}

// unnest returns the table on PostgreSQL, with the number of each row.
func (b *Bulk) unnest() string {
	var args, names strings.Builder
	for i, kind := range b.kinds {
		if i > 0 {
			args.WriteString(", ")
			names.WriteString(", ")
		}
		args.WriteString("$" + strconv.Itoa(i+1) + "::" + string(kind) + "[]")
		names.WriteString("column" + strconv.Itoa(i+1))
	}
	return "unnest(" + args.String() + ") WITH ORDINALITY AS v(" + names.String() + ", number)"
}

func (b *Bulk) arrays() []any {
	arrays := make([]any, len(b.kinds))
	for i, kind := range b.kinds {
		switch kind {
		case Text:
			arrays[i] = b.texts(i)
		case Int:
			arrays[i] = columnOf(b, i, func(value any) int64 { return value.(int64) })
		case Bytes:
			arrays[i] = columnOf(b, i, func(value any) []byte {
				bytes, _ := value.([]byte)
				return bytes
			})
		case Bool:
			arrays[i] = columnOf(b, i, func(value any) bool { return value.(bool) })
		}
	}
	return arrays
}

// texts returns a column of text. pgx encodes strings much faster than pointers to them.
func (b *Bulk) texts(column int) any {
	null := false
	texts := columnOf(b, column, func(value any) string {
		text, ok := value.(string)
		null = null || !ok
		return text
	})
	if !null {
		return texts
	}
	return columnOf(b, column, func(value any) *string {
		text, ok := value.(string)
		if !ok {
			return nil
		}
		return &text
	})
}

func columnOf[T any](b *Bulk, column int, of func(any) T) []T {
	out := make([]T, b.Len())
	for row := range out {
		out[row] = of(b.values[row*len(b.kinds)+column])
	}
	return out
}
