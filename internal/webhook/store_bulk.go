package webhook

import (
	"strconv"
	"strings"

	"steward/internal/db"
)

// bulk is a table of values that one statement works on. It is the second text of the hot paths: PostgreSQL gets one array for each column
// (unnest), SQLite gets rows (VALUES) in chunks of few sizes, so that their statements stay prepared. The statement's own text is the same
// for both; it calls the table v, and its columns column1, column2 and so on.
type bulk struct {
	columns []column
	rows    int
}

// column is one column; the list of its type is in use.
type column struct {
	kind  string // text, bigint or bytea, as PostgreSQL names it
	texts []*string
	ints  []int64
	blobs [][]byte
}

func newBulk(kinds ...string) *bulk {
	b := &bulk{columns: make([]column, len(kinds))}
	for i, kind := range kinds {
		b.columns[i].kind = kind
	}
	return b
}

// add appends a row of strings (or pointers to them), int64s and []bytes, as the columns are.
func (b *bulk) add(values ...any) {
	b.rows++
	for i, value := range values {
		c := &b.columns[i]
		switch v := value.(type) {
		case string:
			c.texts = append(c.texts, &v)
		case *string:
			c.texts = append(c.texts, v)
		case int64:
			c.ints = append(c.ints, v)
		case []byte:
			if v == nil {
				v = []byte{} // nil would be NULL
			}
			c.blobs = append(c.blobs, v)
		default:
			panic("webhook: a bulk column takes text, int64 or bytes")
		}
	}
}

func (c *column) at(row int) any {
	switch c.kind {
	case "text":
		if s := c.texts[row]; s != nil {
			return *s
		}
		return nil
	case "bigint":
		return c.ints[row]
	}
	return c.blobs[row]
}

func (c *column) array() any {
	switch c.kind {
	case "text":
		return c.texts
	case "bigint":
		return c.ints
	}
	return c.blobs
}

// chunks are the numbers of rows that a SQLite statement has.
var chunks = []int{64, 16, 4, 1}

// each runs a statement over all rows. `before` and `after` are its text around the table; `do` gets it with its arguments.
func (b *bulk) each(dialect db.Dialect, before, after string, do func(text string, args []any) error) error {
	if b.rows == 0 {
		return nil
	}
	if dialect == db.Postgres {
		args := make([]any, len(b.columns))
		for i := range b.columns {
			args[i] = b.columns[i].array()
		}
		return do(before+b.unnest()+after, args)
	}
	for at := 0; at < b.rows; {
		n := chunkOf(b.rows - at)
		args := make([]any, 0, n*len(b.columns))
		for row := at; row < at+n; row++ {
			for i := range b.columns {
				args = append(args, b.columns[i].at(row))
			}
		}
		if err := do(before+values(n, len(b.columns))+after, args); err != nil {
			return err
		}
		at += n
	}
	return nil
}

func (b *bulk) exec(tx *db.Tx, before, after string) error {
	return b.each(tx.Dialect(), before, after, func(text string, args []any) error { return tx.Send(text, args...) })
}

// collect runs a statement that answers with rows of one form.
func collect[T any](q db.Querier, dialect db.Dialect, b *bulk, scan func(db.Row) (T, error), before, after string) (all []T, err error) {
	err = b.each(dialect, before, after, func(text string, args []any) error {
		some, err := db.Collect(q, scan, text, args...)
		all = append(all, some...)
		return err
	})
	return all, err
}

func chunkOf(left int) int {
	for _, n := range chunks {
		if n <= left {
			return n
		}
	}
	return 1
}

// unnest is the table on PostgreSQL.
func (b *bulk) unnest() string {
	var args, names strings.Builder
	for i, c := range b.columns {
		if i > 0 {
			args.WriteString(", ")
			names.WriteString(", ")
		}
		args.WriteString("$" + strconv.Itoa(i+1) + "::" + c.kind + "[]")
		names.WriteString("column" + strconv.Itoa(i+1))
	}
	return "unnest(" + args.String() + ") AS v(" + names.String() + ")"
}

// values is the table on SQLite, which calls its columns column1 and so on by itself. Its parameters are nameless: SQLite looks for the
// name of each one in a list of all, which for $1 and so on took a third of the time of a large statement.
func values(rows, columns int) string {
	row := "(" + strings.Repeat("?,", columns-1) + "?)"
	return "(VALUES " + strings.Repeat(row+",", rows-1) + row + ") AS v"
}
