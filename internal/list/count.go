package list

import (
	"fmt"
	"strconv"
	"time"

	"steward/internal/db"
	"steward/internal/page"
)

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
