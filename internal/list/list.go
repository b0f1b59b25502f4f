// Package list reads the pages of lists.
//
// A store describes a list as a Query: its tables, the Conditions of a filter, and an Order. Each filter
// has a statement of its own, and so its own plan, in which the parameters are numbered as they come.
// Page reads one row more than a page has, which tells whether there is a next one. A page begins after
// the position of a cursor, which the first columns of an index lead to, or at an offset; rows before a
// page deep in a list are skipped in the index, without reading them.
//
// The number of all rows is what a store knows, what Count counts, or, for lists that may be long, what
// CountedPage counts up to page.MaxCounted.
package list

import (
	"errors"
	"fmt"
	"slices"

	"steward/internal/db"
	"steward/internal/page"
)

// Query is a list, for one request.
type Query[T any] struct {
	// Name is what the rows are called in errors.
	Name string
	// From has the table, or several.
	From SQL
	// Where has the conditions of all rows.
	Where Conditions
	Order Order[T]
	// Columns are what Scan reads. Scan may count large fields in a page.Budget.
	Columns string
	Scan    func(db.Row) (T, error)
	// Join joins the tables that have the columns, if From has not, with the entries of a page: the values
	// of the order's columns.
	Join SQL
	// End ends a list whose conditions do not, if not nil.
	End *End[T]
}

// End is where a list ends whose statements read on: what they read is bounded by their limit, and what is
// past the end is left out.
type End[T any] struct {
	// Past reports whether a row is past the end. All rows after it are, too.
	Past func(T) bool
	// Before is the condition on the columns of the order that a row is not past the end.
	Before SQL
}

// Page returns a page of a list that has a total, which may be page.Unknown. It returns Invalid for a
// cursor of another list.
func (l Query[T]) Page(q db.Querier, p page.Paging, total int64) (page.Page[T], error) {
	after, err := l.Order.start(p.Cursor)
	if err != nil {
		return page.Page[T]{}, err
	}
	none := page.Page[T]{Total: total, Paging: p}
	if p.Limit == 0 || total == 0 {
		return none, nil
	}
	offset := p.Offset
	switch {
	case p.Cursor != "":
		offset = 0
	case p.IsDeep() && l.Join.text == "":
		after, err = l.rowAt(q, after, offset-1)
		if errors.Is(err, db.ErrNoRows) {
			return none, nil
		}
		if err != nil {
			return page.Page[T]{}, fmt.Errorf("find page of %s: %w", l.Name, err)
		}
		offset = 0
	}
	text, args := l.read(after, p.Limit+1, offset).Statement()
	rows, err := db.Collect(q, l.Scan, text, args...)
	if err != nil {
		return page.Page[T]{}, fmt.Errorf("list %s: %w", l.Name, err)
	}
	return page.New(l.cut(rows), total, p, l.Order.Cursor), nil
}

// cut returns the rows that are not past the end.
func (l Query[T]) cut(rows []T) []T {
	if l.End == nil {
		return rows
	}
	if i := slices.IndexFunc(rows, l.End.Past); i >= 0 {
		return rows[:i]
	}
	return rows
}

// Statement returns the statement of a page and its arguments.
func (l Query[T]) Statement(p page.Paging) (text string, args []any, err error) {
	after, err := l.Order.start(p.Cursor)
	if err != nil {
		return "", nil, err
	}
	text, args = l.read(after, p.Limit+1, p.Offset).Statement()
	return text, args, nil
}

// read returns the statement for rows after a position.
func (l Query[T]) read(after []any, limit, offset int) SQL {
	if l.Join.text == "" {
		return Text(`? LIMIT ? OFFSET ?`, l.rows(l.Columns, after), limit, offset)
	}
	entries := Text(`? LIMIT ? OFFSET ?`, l.rows(l.Order.columns(), after), limit, offset)
	return Text(`SELECT `+l.Columns+` FROM (?) entries ?`+l.Order.by(`entries.`), entries, l.Join)
}

// rows selects columns of the rows after a position, in the order of the list.
func (l Query[T]) rows(columns string, after []any) SQL {
	return Text(`SELECT `+columns+` FROM ?`+l.Order.by(``), l.within(after))
}

// within returns the tables and the conditions of the rows after a position, or of all if that is nil.
func (l Query[T]) within(after []any) SQL {
	if after == nil {
		return Text(`? WHERE ?`, l.From, l.Where)
	}
	return Text(`? WHERE ? AND ?`, l.From, l.Where, l.Order.beyond(after))
}

// rowAt returns the position of the nth row after another, or db.ErrNoRows. It reads the columns of the
// order only.
func (l Query[T]) rowAt(q db.Querier, after []any, n int) ([]any, error) {
	text, args := Text(`? LIMIT 1 OFFSET ?`, l.rows(l.Order.columns(), after), n).Statement()
	return l.Order.scan(q.Row(text, args...))
}
