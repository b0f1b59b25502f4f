// Package list reads pages of lists.
//
// A store describes a list as a Query: its tables, a filter's Conditions, and an Order. Each filter
// has its own statement, and so its own plan, in which the parameters are numbered as they come.
// Page reads one row more than it needs, which tells whether there is a next page. A page begins
// after a cursor's position, which the first columns in an index lead to, or at an offset; if it
// lies deep in a list, we skip the rows before it in the index, without reading them.
//
// The number of all rows comes from the store, from Count, or, for lists that may be long, from
// CountedPage, which counts up to page.MaxCounted.
package list

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"steward/internal/db"
	"steward/internal/page"
)

// Query is a list, for one request.
type Query[T any] struct {
	// Name is the rows' name in errors.
	Name string
	// From has the table, or several.
	From SQL
	// Where has the conditions that every row meets.
	Where Conditions
	Order Order[T]
	// Columns are read by Scan, which may count large fields in a page.Budget.
	Columns string
	Scan    func(db.Row) (T, error)
	// Join joins the tables that have the columns, unless From has them, with a page's entries: the
	// values of the order's columns.
	Join SQL
	// End ends a list whose conditions do not, if not nil.
	End *End[T]
}

// End ends a list whose statements read further. Their limit bounds how far, and we drop rows past
// the end.
type End[T any] struct {
	// Past reports whether a row is past the end. If so, all later rows are, too.
	Past func(T) bool
	// Before is the condition, on the order's columns, that a row is not past the end.
	Before SQL
}

// Page returns a page from a list that has a total, which may be page.Unknown. It returns Invalid
// for another list's cursor.
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

// Statement returns a page's statement and its arguments.
func (l Query[T]) Statement(p page.Paging) (text string, args []any, err error) {
	after, err := l.Order.start(p.Cursor)
	if err != nil {
		return "", nil, err
	}
	text, args = l.read(after, p.Limit+1, p.Offset).Statement()
	return text, args, nil
}

func (l Query[T]) read(after []any, limit, offset int) SQL {
	if l.Join.text == "" {
		return Text(`? LIMIT ? OFFSET ?`, l.rows(l.Columns, after), limit, offset)
	}
	entries := Text(`? LIMIT ? OFFSET ?`, l.rows(l.Order.columns(), after), limit, offset)
	return Text(`SELECT `+l.Columns+` FROM (?) entries ?`+l.Order.by(`entries.`), entries, l.Join)
}

// rows selects columns from the rows after a position, in the list's order.
func (l Query[T]) rows(columns string, after []any) SQL {
	return Text(`SELECT `+columns+` FROM ?`+l.Order.by(``), l.within(after))
}

// within returns the tables and conditions for the rows after a position, or for all rows if that is
// nil.
func (l Query[T]) within(after []any) SQL {
	if after == nil {
		return Text(`? WHERE ?`, l.From, l.Where)
	}
	return Text(`? WHERE ? AND ?`, l.From, l.Where, l.Order.beyond(after))
}

// rowAt returns the position of the nth row after another, or db.ErrNoRows. It reads only the
// order's columns.
func (l Query[T]) rowAt(q db.Querier, after []any, n int) ([]any, error) {
	text, args := Text(`? LIMIT 1 OFFSET ?`, l.rows(l.Order.columns(), after), n).Statement()
	position := make([]any, len(l.Order.Columns))
	dest := make([]any, len(l.Order.Columns))
	for i := range position {
		dest[i] = &position[i]
	}
	err := q.Row(text, args...).Scan(dest...)
	return position, err
}

// Count returns the number of all rows.
func (l Query[T]) Count(q db.Querier) (n int64, err error) {
	text, args := Text(`SELECT count(*) FROM ?`, l.within(l.Order.Begin)).Statement()
	if err := q.Row(text, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count %s: %w", l.Name, err)
	}
	return n, nil
}

// CountedPage is Page for a list that may be long. It counts rows up to page.MaxCounted; a longer
// list has the Total page.Unknown, which cache remembers.
func (l Query[T]) CountedPage(q db.Querier, p page.Paging, cache *page.CountCache, now time.Time) (page.Page[T], error) {
	found, err := l.Page(q, p, page.Unknown)
	if err != nil {
		return page.Page[T]{}, err
	}
	if n := len(found.Items); p.Cursor == "" && p.Limit > 0 && found.Next == "" && (n > 0 || p.Offset == 0) {
		found.Total = int64(p.Offset + n)
		return found, nil
	}
	found.Total, err = l.countUpToMax(q, cache, now)
	return found, err
}

// countUpToMax counts in the list's order, in which the first of a million rows are counted as fast
// as those in a short list.
func (l Query[T]) countUpToMax(q db.Querier, cache *page.CountCache, now time.Time) (n int64, err error) {
	limit := strconv.Itoa(page.MaxCounted + 1)
	counted := Text(`SELECT count(*) FROM (? LIMIT `+limit+`) counted`, l.rows(l.Order.columns(), l.Order.Begin))
	if l.End != nil {
		counted = Text(`? WHERE ?`, counted, l.End.Before)
	}
	text, args := counted.Statement()
	key := fmt.Sprintf("%s %#v", text, args)
	if cache.IsLarge(key, now) {
		return page.Unknown, nil
	}
	if err := q.Row(text, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count %s: %w", l.Name, err)
	}
	if n > page.MaxCounted {
		cache.SetLarge(key, now)
		return page.Unknown, nil
	}
	return n, nil
}
