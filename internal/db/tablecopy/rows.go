package tablecopy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"steward/internal/db"
)

// Row has a row's values, in their columns' kinds.
type Row []any

// Page is some of a table's rows.
type Page struct {
	Rows []Row
	// Bytes estimates the memory that the rows take.
	Bytes int
	// Complete reports whether all requested rows are there; otherwise they were too large.
	Complete bool
}

// MaxPage is roughly the largest page, in bytes. A page has at least one row all the same.
const MaxPage = 16 << 20

// Page returns at most limit rows after the one with a key, in primary key order. A nil key is
// before all rows.
func (t Table) Page(q db.Querier, after []any, limit int) (Page, error) {
	page := Page{Complete: true}
	err := t.collect(&page, q, t.pageText(after, limit), after)
	return page, err
}

// errFull ends a statement whose rows do not fit in a page.
var errFull = errors.New("tablecopy: the page is full")

// collect adds a statement's rows to a page, until that is full. The statement selects all columns.
func (t Table) collect(page *Page, q db.Querier, text string, args []any) error {
	err := t.each(q, text, args, func(row Row) error {
		if page.Bytes >= MaxPage {
			page.Complete = false
			return errFull
		}
		row = slices.Clone(row)
		for i := range row {
			if b, ok := row[i].([]byte); ok {
				row[i] = bytes.Clone(b)
			}
		}
		page.Rows = append(page.Rows, row)
		page.Bytes += sizeOf(row)
		return nil
	})
	if err != nil && !errors.Is(err, errFull) {
		return fmt.Errorf("read %s: %w", t.Name, err)
	}
	return nil
}

// sizeOf estimates the memory that a row takes.
func sizeOf(row Row) int {
	n := 64 + 32*len(row)
	for _, value := range row {
		switch v := value.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// Convert gives values the types that their database uses. SQLite has integers in place of booleans,
// so its values differ in type from PostgreSQL's.
func Convert(columns []db.Column, values []any) {
	for i, c := range columns {
		switch v := values[i].(type) {
		case int64:
			if c.Kind == db.Boolean {
				values[i] = v != 0
			}
		case bool:
			if c.Kind == db.Integer {
				values[i] = int64(boolDigit(v))
			}
		}
	}
}

// KeyColumns returns the primary key's columns, in the key's order.
func (t Table) KeyColumns() []db.Column {
	var columns []db.Column
	for _, i := range t.key() {
		columns = append(columns, t.Columns[i])
	}
	return columns
}

// Keys returns the table with only its primary key's columns.
func (t Table) Keys() Table { return Table{Name: t.Name, Columns: t.KeyColumns()} }

// KeyOf returns a row's primary key.
func (t Table) KeyOf(row Row) []any {
	var key []any
	for _, i := range t.key() {
		key = append(key, row[i])
	}
	return key
}

// Line returns values as a line, for comparisons: values are equal if their lines are.
func Line(values []any) (string, error) {
	line, err := appendLine(nil, values)
	return string(line), err
}

// Find returns the rows with these keys, in any order.
func (t Table) Find(q db.Querier, keys [][]any) (Page, error) {
	page := Page{Complete: true}
	if len(keys) == 0 {
		return page, nil
	}
	if q.Dialect() == db.Postgres {
		arrays, from := t.keyArrays(keys)
		columns := "t." + strings.ReplaceAll(db.Quoted(t.Columns), ", ", ", t.")
		text := "SELECT " + columns + " FROM " + from + " JOIN " + t.Name + " AS t ON " + t.sameKey()
		err := t.collect(&page, q, text, arrays)
		return page, err
	}
	text := "SELECT " + db.Quoted(t.Columns) + " FROM " + t.Name + " WHERE " + t.isKey()
	for _, key := range keys {
		if err := t.collect(&page, q, text, key); err != nil || !page.Complete {
			return page, err
		}
	}
	return page, nil
}

// Delete deletes the rows with these keys.
func (t Table) Delete(tx *db.Tx, keys [][]any) error {
	if len(keys) == 0 {
		return nil
	}
	text, statements := "DELETE FROM "+t.Name+" WHERE "+t.isKey(), keys
	if tx.Dialect() == db.Postgres {
		arrays, from := t.keyArrays(keys)
		text, statements = "DELETE FROM "+t.Name+" AS t USING "+from+" WHERE "+t.sameKey(), [][]any{arrays}
	}
	for _, args := range statements {
		if _, err := tx.Exec(text, args...); err != nil {
			return fmt.Errorf("delete from %s: %w", t.Name, err)
		}
	}
	return nil
}

// Replace writes rows, and deletes those with the same key or the same value in a unique index.
func (t Table) Replace(tx *db.Tx, rows []Row) error {
	if err := t.displace(tx, rows); err != nil {
		return err
	}
	values := make([][]any, len(rows))
	keys := make([][]any, len(rows))
	for i, row := range rows {
		values[i] = row
		keys[i] = t.KeyOf(row)
	}
	if err := t.Delete(tx, keys); err != nil {
		return err
	}
	return t.Insert(tx, values)
}

// uniqueText lists the columns in unique indexes other than the primary key: the index's name, and
// the column's position in the table, from 1.
var uniqueText = map[db.Dialect]string{
	db.SQLite: `SELECT i.name, c.cid + 1 FROM pragma_index_list($1) i, pragma_index_info(i.name) c
		WHERE i."unique" = 1 AND i.origin <> 'pk' ORDER BY i.name, c.seqno`,
	db.Postgres: `SELECT i.indexrelid::text, (SELECT count(*) FROM pg_attribute a
			WHERE a.attrelid = i.indrelid AND a.attnum BETWEEN 1 AND k.number AND NOT a.attisdropped)
		FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(number, position)
		WHERE i.indrelid = to_regclass($1) AND i.indisunique AND NOT i.indisprimary AND k.position <= i.indnkeyatts
		ORDER BY 1, k.position`,
}

// displace deletes rows that have the same values in a unique index as the given ones.
func (t Table) displace(tx *db.Tx, rows []Row) error {
	indexes := map[string][]int{}
	_, err := db.Collect(tx, func(r db.Row) (none struct{}, err error) {
		var index string
		var column int
		if err := r.Scan(&index, &column); err != nil {
			return none, err
		}
		indexes[index] = append(indexes[index], column-1)
		return none, nil
	}, uniqueText[tx.Dialect()], t.Name)
	if err != nil {
		return fmt.Errorf("read the indexes of %s: %w", t.Name, err)
	}
	for _, columns := range indexes {
		index := t.keyedBy(columns)
		var keys [][]any
		for _, row := range rows {
			if key := index.KeyOf(row); !slices.Contains(key, nil) {
				keys = append(keys, key)
			}
		}
		if err := index.Delete(tx, keys); err != nil {
			return err
		}
	}
	return nil
}

// keyedBy returns the table as if these columns were its primary key.
func (t Table) keyedBy(columns []int) Table {
	other := Table{Name: t.Name, Columns: slices.Clone(t.Columns)}
	for i := range other.Columns {
		other.Columns[i].Key = 1 + slices.Index(columns, i)
	}
	return other
}

// isKey returns the condition that a row has the key in the parameters.
func (t Table) isKey() string {
	var terms []string
	for i, c := range t.KeyColumns() {
		terms = append(terms, `"`+c.Name+`" = $`+strconv.Itoa(i+1))
	}
	return strings.Join(terms, " AND ")
}

// sameKey returns the condition that t and v have the same key.
func (t Table) sameKey() string {
	var terms []string
	for _, c := range t.KeyColumns() {
		terms = append(terms, `t."`+c.Name+`" = v."`+c.Name+`"`)
	}
	return strings.Join(terms, " AND ")
}

// keyArrays returns the keys as an array for each column, and the expression that PostgreSQL reads
// them from as table v.
func (t Table) keyArrays(keys [][]any) (arrays []any, from string) {
	columns := t.KeyColumns()
	var params []string
	for i, c := range columns {
		params = append(params, "$"+strconv.Itoa(i+1)+"::"+arrayTypes[c.Kind])
		arrays = append(arrays, arrayOf(c.Kind, keys, i))
	}
	return arrays, "unnest(" + strings.Join(params, ", ") + ") AS v(" + db.Quoted(columns) + ")"
}

// arrayOf returns one column from all rows as an array for PostgreSQL.
func arrayOf(kind db.Kind, rows [][]any, i int) any {
	switch kind {
	case db.Integer:
		return columnOf[int64](rows, i)
	case db.Boolean:
		return columnOf[bool](rows, i)
	case db.Float:
		return columnOf[float64](rows, i)
	case db.Text:
		return columnOf[string](rows, i)
	}
	return bytesOf(rows, i)
}

func placeholders(n int) string {
	params := make([]string, n)
	for i := range params {
		params[i] = "$" + strconv.Itoa(i+1)
	}
	return strings.Join(params, ", ")
}
