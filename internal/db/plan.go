package db

import (
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// plans caches how a database runs its statements over many rows, in its dialect. It grows no
// further than the number of texts in the program.
type plans struct{ known sync.Map } // planKey → *plan

// planKey names a plan. The row type is nil if the caller knows the columns.
type planKey struct {
	dialect Dialect
	row     reflect.Type
	text    string
}

// ofKinds returns the plan for a text whose columns have numbers.
func (p *plans) ofKinds(dialect Dialect, kinds []kind, text string) *plan {
	return p.of(planKey{dialect, nil, text}, func() *plan { return newPlan(dialect, kinds, text) })
}

func (p *plans) of(key planKey, make func() *plan) *plan {
	if known, ok := p.known.Load(key); ok {
		return known.(*plan)
	}
	known, _ := p.known.LoadOrStore(key, make())
	return known.(*plan)
}

// columnsOf returns the kinds and field indexes for these column names. A row that is not a struct
// is a single column, and has no fields.
func columnsOf(row reflect.Type, names []string) (kinds []kind, fields [][]int) {
	if row.Kind() != reflect.Struct {
		return []kind{kindOf(row)}, nil
	}
	for _, name := range names {
		joined := strings.ReplaceAll(name, "_", "")
		field, ok := row.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, joined) })
		if !ok {
			panic("db: " + row.String() + " has no field for v." + name)
		}
		kinds = append(kinds, kindOf(field.Type))
		fields = append(fields, field.Index)
	}
	return kinds, fields
}

// plan tells how to run a statement over a table of values, whose columns are called v.column1,
// v.column2 and so on.
type plan struct {
	dialect Dialect
	kinds   []kind
	fields  [][]int // indexes in a row, if it is a struct
	// texts has one statement for all rows on PostgreSQL. On SQLite it has statements for 1, 2, 4
	// rows and so on, or one to run for each row.
	texts []string
}

// maxChunk is the binary logarithm of the most rows in a SQLite statement. We chunk by powers of
// two, to keep few texts prepared.
const maxChunk = 6

// newPlan returns the plan for a text with {v}, {FROM v}, {USING v} or {IN v}.
func newPlan(dialect Dialect, kinds []kind, text string) *plan {
	before, rest, _ := strings.Cut(text, "{")
	mark, after, _ := strings.Cut(rest, "}")
	join, found := strings.CutSuffix(mark, "v")
	if !found {
		panic("db: a statement over many rows needs {v}, {FROM v}, {USING v} or {IN v}: " + text)
	}
	p := &plan{dialect: dialect, kinds: kinds}
	switch {
	case dialect == Postgres && join == "IN ":
		p.texts = []string{before + "= ANY($1)" + after}
	case dialect == Postgres:
		p.texts = []string{before + join + p.unnest() + after}
	case join == "IN ":
		p.texts = []string{before + "= ?" + after}
	case join != "":
		p.texts = []string{strings.ReplaceAll(before+after, "v.column", "?")}
	default:
		for size := range maxChunk + 1 {
			p.texts = append(p.texts, before+p.rows(1<<size)+after)
		}
	}
	return p
}

// rows returns the table on SQLite, which itself names the columns column1 and so on. Parameters
// have no names: SQLite would look each one up in a list, which takes long in a large statement.
func (p *plan) rows(n int) string {
	row := "(" + strings.Repeat("?,", len(p.kinds)-1) + "?)"
	return "(VALUES " + strings.Repeat(row+",", n-1) + row + ") AS v"
}

// unnest returns the table on PostgreSQL, with each row's number.
func (p *plan) unnest() string {
	var args, names strings.Builder
	for i, kind := range p.kinds {
		if i > 0 {
			args.WriteString(", ")
			names.WriteString(", ")
		}
		args.WriteString("$" + strconv.Itoa(i+1) + "::" + string(kind) + "[]")
		names.WriteString("column" + strconv.Itoa(i+1))
	}
	return "unnest(" + args.String() + ") WITH ORDINALITY AS v(" + names.String() + ", v_row)"
}

// each calls do for each statement that the plan needs to cover the values, row after row.
func (p *plan) each(values []any, do func(text string, args []any) error) error {
	if p.dialect == Postgres && len(values) > 0 {
		return do(p.texts[0], p.arrays(values))
	}
	for chunk := range p.chunks(values) {
		if err := do(p.texts[bits.Len(uint(len(chunk)/len(p.kinds)))-1], chunk); err != nil {
			return err
		}
	}
	return nil
}

// chunks splits the values into one slice for each statement on SQLite.
func (p *plan) chunks(values []any) func(yield func([]any) bool) {
	return func(yield func([]any) bool) {
		for left := values; len(left) > 0; {
			size := min(len(p.texts), bits.Len(uint(len(left)/len(p.kinds)))) - 1
			chunk := left[:len(p.kinds)<<size]
			left = left[len(chunk):]
			if !yield(chunk) {
				return
			}
		}
	}
}

// arrays turns the values into one array for each column.
func (p *plan) arrays(values []any) []any {
	arrays := make([]any, len(p.kinds))
	for i, kind := range p.kinds {
		column := column{values: values[i:], step: len(p.kinds)}
		switch kind {
		case kindText:
			arrays[i] = nullable[string](column)
		case kindInt:
			arrays[i] = nullable[int64](column)
		case kindFloat:
			arrays[i] = nullable[float64](column)
		case kindBool:
			arrays[i] = nullable[bool](column)
		case kindBytes:
			arrays[i], _ = valuesOf[[]byte](column)
		}
	}
	return arrays
}

// column selects one column: the first of every step values.
type column struct {
	values []any
	step   int
}

// nullable returns a column, as pointers only if it contains NULL: pgx encodes plain values much
// faster.
func nullable[T any](c column) any {
	values, null := valuesOf[T](c)
	if !null {
		return values
	}
	pointers := make([]*T, len(values))
	for row := range values {
		if c.values[row*c.step] != nil {
			pointers[row] = &values[row]
		}
	}
	return pointers
}

// valuesOf returns a column's values, with zeros for NULL, and reports whether it contains NULL.
func valuesOf[T any](c column) (values []T, null bool) {
	values = make([]T, 0, len(c.values)/c.step+1)
	for value := range slices.Chunk(c.values, c.step) {
		v, ok := value[0].(T)
		values = append(values, v)
		null = null || !ok
	}
	return values, null
}
