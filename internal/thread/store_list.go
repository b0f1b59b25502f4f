package thread

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
)

const (
	// maxFilterKeys bounds a metadata filter: each key is a condition of the statement.
	maxFilterKeys = 20
	// maxPageBytes ends a page early: the next link goes on after it.
	maxPageBytes = 32 << 20
)

// Filter narrows and orders a list of threads.
type Filter struct {
	ProjectID string
	// Keys are the facets that a thread must have.
	Keys    []facet
	Deleted bool
	// Updated sorts by the time of change, else of creation.
	Updated bool
	// Ascending has the oldest first.
	Ascending bool
}

// parseFilter reads the metadata of a query, or gives Invalid.
func parseFilter(text string) ([]facet, error) {
	if text == "" {
		return nil, nil
	}
	object, err := decodeObject([]byte(text))
	if err != nil {
		return nil, errs.Wrong("query.metadata", "expected a JSON object")
	}
	if len(object) > maxFilterKeys {
		return nil, errs.Wrong("query.metadata", "expected at most %d keys", maxFilterKeys)
	}
	return facetsOf(object), nil
}

func (f Filter) column() string {
	if f.Updated {
		return "updated_at"
	}
	return "created_at"
}

// table has the threads of a facet in the order of the list.
func (f Filter) table() string {
	if f.Updated {
		return "thread_changes"
	}
	return "thread_facets"
}

// order names the order of the list; a cursor holds for one of them.
func (f Filter) order() string {
	if f.Ascending {
		return f.column() + " ASC"
	}
	return f.column() + " DESC"
}

func (f Filter) at(t Thread) page.Cursor {
	if f.Updated {
		return page.NewCursor(f.order(), int64(t.UpdatedAt), t.ID)
	}
	return page.NewCursor(f.order(), int64(t.CreatedAt), t.ID)
}

// after gives the place that a cursor of this list marks.
func (f Filter) after(c page.Cursor) (at stamp.Time, threadID string, err error) {
	var order string
	var micros int64
	if err := c.Scan(&order, &micros, &threadID); err != nil {
		return 0, "", err
	}
	if order != f.order() {
		return 0, "", errs.Wrong("query.cursor", "expected a cursor of a list with the same sort and direction")
	}
	return stamp.Time(micros), threadID, nil
}

// List gives a page of the threads that a caller sees. A wrong cursor is Invalid.
//
// A filter is a set of facets. The one with the fewest threads leads: its index gives them in the order of the list, and the others are
// looked for in what its rows keep of the other keys (mates). So a page costs as much as it gives where one facet decides,
// however many threads share the others; and where they never meet, it costs one pass over the index of the rarest.
func (s *Store) List(ctx context.Context, caller *auth.Caller, f Filter, p page.Paging) (page.Page[Thread], error) {
	if p.Cursor != "" {
		if _, _, err := f.after(p.Cursor); err != nil {
			return page.Page[Thread]{}, err
		}
	}
	q := s.DB.Read(ctx)
	facets, n, err := s.lead(q, caller.OrgID, f)
	if err != nil || p.Limit == 0 || n == 0 {
		return page.Page[Thread]{Total: n, Paging: p}, err
	}
	text, args, err := f.statement(s.DB.Dialect(), caller.OrgID, facets, p)
	if err != nil {
		return page.Page[Thread]{}, err
	}
	o := opener{ring: s.Ring, purpose: threadData}
	rows, cut, err := collect(db.Each(q, (*listedThread).columns, text, args...), p.Room(n), func(r *listedThread) (Thread, int, error) {
		var err error
		t := r.Thread
		t.OrgID, t.Deleted = caller.OrgID, t.DeletedAt != nil
		t.UserData, err = o.open(r.sealed)
		return t, weight(t.UserData, t.Metadata), err
	})
	if err != nil {
		return page.Page[Thread]{}, err
	}
	result := page.New(rows, n, p, f.at)
	if cut && len(rows) <= p.Limit {
		result.Next = f.at(rows[len(rows)-1])
	}
	return result, nil
}

// facets are what a thread must be listed under: nothing for a list of all.
func (f Filter) facets() []facet {
	switch {
	case f.ProjectID == "":
		return f.Keys
	case len(f.Keys) == 0:
		return []facet{projectFacet(f.ProjectID)}
	}
	var out []facet
	for _, key := range f.Keys {
		out = append(out, key.inProject(f.ProjectID))
	}
	return out
}

// lead gives the facets of a filter, the one with the fewest threads first, and the size of the list, or Unknown.
func (s *Store) lead(q db.Querier, orgID string, f Filter) ([]facet, int64, error) {
	facets := slices.Clone(f.facets())
	if len(f.Keys) == 0 {
		n, err := total(q, orgID, f.ProjectID, f.counted())
		return facets, n, err
	}
	sizes, err := sizesOf(q, orgID, f.Deleted, facets)
	if err != nil {
		return nil, 0, err
	}
	slices.SortFunc(facets, func(a, b facet) int { return cmp.Compare(sizes[a], sizes[b]) })
	n := sizes[facets[0]]
	switch {
	case n > page.MaxCounted:
		return facets, page.Unknown, nil
	case n > 0 && len(facets) > 1:
		n, err = f.count(q, s.DB.Dialect(), orgID, facets)
	}
	return facets, n, err
}

func (f Filter) counted() string {
	if f.Deleted {
		return countDeleted
	}
	return countThreads
}

// count counts the threads that have all facets, of which the first one has at most page.MaxCounted.
func (f Filter) count(q db.Querier, dialect db.Dialect, orgID string, facets []facet) (n int64, err error) {
	args := arguments{orgID}
	where := f.within(facets[0], false, &args) + f.others(dialect, "thread_facets", facets, &args)
	err = q.Row(`SELECT count(*) FROM thread_facets f WHERE f.org_id = $1`+where, args...).Scan(&n)
	return n, err
}

// others is the condition that the thread of a row f, of the first facet, has the other facets too. Where the row does not tell, they are
// looked up, in scalar subqueries, since PostgreSQL might turn an EXISTS into a join that reads all threads of a facet: beyond the facet,
// the places of a thread in a table are the same.
func (f Filter) others(dialect db.Dialect, table string, facets []facet, args *arguments) (where string) {
	contains, place := `instr(f.mates, %s) > 0`, `CAST(%s || substr(f.place, %d) AS BLOB)`
	if dialect == db.Postgres {
		contains, place = `position(%s::bytea in f.mates) > 0`, `%s::bytea || substr(f.place, %d)`
	}
	keys := map[facet]facet{}
	for _, key := range f.Keys {
		keys[key], keys[key.inProject(f.ProjectID)] = key, key
	}
	for _, other := range facets[1:] {
		key := keys[other]
		where += fmt.Sprintf(` AND CASE WHEN f.mates IS NOT NULL THEN `+contains+` ELSE (SELECT count(*) FROM `+table+` o
			WHERE o.org_id = $1 AND o.place = `+place+` AND o.thread_id = f.thread_id) = 1 END`,
			args.add(key[:mateSize]), args.add(other[:]), len(other)+1)
	}
	return where
}

// arguments are those of a statement.
type arguments []any

// add gives the name of one more.
func (a *arguments) add(value any) string {
	*a = append(*a, value)
	return "$" + strconv.Itoa(len(*a))
}

// statement writes the page's query: first the keys of the page from an index, then their rows.
func (f Filter) statement(dialect db.Dialect, orgID string, facets []facet, p page.Paging) (string, []any, error) {
	args, offset := arguments{orgID, p.Limit + 1}, p.Offset
	table, column, id, where := "threads", "f."+f.column(), "f.id", `f.org_id = $1`
	if len(facets) == 0 {
		where += ` AND f.deleted = ` + args.add(f.Deleted)
	} else {
		table, column, id = f.table(), "f.place", "f.thread_id"
		where += f.within(facets[0], p.Cursor != "", &args)
	}
	direction, beyond := " DESC", " < "
	if f.Ascending {
		direction, beyond = " ASC", " > "
	}
	if p.Cursor != "" {
		at, threadID, err := f.after(p.Cursor)
		if err != nil {
			return "", nil, err
		}
		var place any = at
		if len(facets) > 0 {
			place = facets[0].place(f.Deleted, at)
		}
		offset = 0
		where += ` AND (` + column + `, ` + id + `)` + beyond + `(` + args.add(place) + `, ` + args.add(threadID) + `)`
	}
	if len(facets) > 1 {
		where += f.others(dialect, table, facets, &args)
	}
	result := ` FROM ` + table + ` f WHERE ` + where + ` ORDER BY ` + column + direction + `, ` + id + direction +
		` LIMIT $2 OFFSET ` + args.add(offset)
	if len(facets) == 0 && offset == 0 { // one index leads to the rows; what is passed over is better seen in the index alone
		return listedThreads + result, args, nil
	}
	return listedThreads + ` FROM (SELECT ` + id + ` AS thread_id, ` + column + ` AS place` + result + `) k
		JOIN threads t ON t.org_id = $1 AND t.id = k.thread_id ORDER BY k.place` + direction + `, k.thread_id` + direction, args, nil
}

// within is the condition that a row f is one of a facet. A cursor stands for the bound at which the list begins: of two such bounds SQLite
// might begin at the other one.
func (f Filter) within(lead facet, cursor bool, args *arguments) (where string) {
	if !cursor || !f.Ascending {
		where += ` AND f.place >= ` + args.add(lead.first(f.Deleted))
	}
	if !cursor || f.Ascending {
		where += ` AND f.place < ` + args.add(lead.end(f.Deleted))
	}
	return where
}

var listedThreads = fmt.Sprintf(`SELECT `+threadColumns+`, CASE WHEN user_data_size > %d THEN NULL ELSE user_data END`, MaxListed)

// listedThread is a row of listedThreads.
type listedThread struct {
	Thread
	sealed []byte
}

func (r *listedThread) columns() []any { return append(r.Thread.columns(), &r.sealed) }

// collect makes a list of rows until there are no more, or too many bytes: then the page is cut. read also tells how many a row has.
func collect[R, T any](rows iter.Seq2[*R, error], room int, read func(*R) (T, int, error)) (list []T, cut bool, err error) {
	list, bytes := make([]T, 0, room), 0
	for row, err := range rows {
		if err != nil {
			return nil, false, err
		}
		if bytes > maxPageBytes {
			return list, true, nil
		}
		one, size, err := read(row)
		if err != nil {
			return nil, false, err
		}
		list, bytes = append(list, one), bytes+size
	}
	return list, false, nil
}

// opener opens one user_data after the other, in the same memory.
type opener struct {
	ring    *seal.Ring
	purpose string
	plain   []byte
}

func (o *opener) open(sealed []byte) (_ *string, err error) {
	if sealed == nil {
		return nil, nil
	}
	if o.plain, err = o.ring.AppendOpen(o.plain[:0], o.purpose, sealed); err != nil {
		return nil, err
	}
	text := string(o.plain)
	return &text, nil
}

// weight is what a row's two large fields add to a page.
func weight(userData *string, metadata Metadata) int {
	if userData == nil {
		return len(metadata)
	}
	return len(metadata) + len(*userData)
}
