package thread

import (
	"steward/internal/errs"
	"steward/internal/list"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/thread/term"
)

// maxFilterKeys bounds a metadata filter, since each key adds a condition to the statement.
const maxFilterKeys = 20

// Filter selects and orders threads for a list.
type Filter struct {
	ProjectID string
	// Keys has the terms for metadata keys that a thread must have.
	Keys    []term.Term
	Deleted bool
	// Updated orders by the last change instead of the creation.
	Updated bool
	// Ascending lists the oldest thread first.
	Ascending bool
}

// parseFilter reads the metadata parameter. It returns Invalid unless that is an object.
func parseFilter(text string) ([]term.Term, error) {
	if text == "" {
		return nil, nil
	}
	object, err := decodeObject([]byte(text))
	if err != nil {
		return nil, errs.InvalidField("query.metadata", "expected a JSON object")
	}
	if len(object) > maxFilterKeys {
		return nil, errs.InvalidField("query.metadata", "expected at most %d keys", maxFilterKeys)
	}
	return term.OfKeys(object), nil
}

// term returns the term for threads that have a key in the filter's project.
func (f Filter) term(key term.Term) term.Term {
	if f.ProjectID == "" {
		return key
	}
	return key.InProject(f.ProjectID)
}

// isWhole reports whether the filter selects all of an organization's threads, or all deleted ones.
func (f Filter) isWhole() bool { return f.ProjectID == "" && len(f.Keys) == 0 }

// column returns the column by which the list is ordered.
func (f Filter) column() string {
	if f.Updated {
		return "updated_at"
	}
	return "created_at"
}

// table returns the index table whose entries have that order.
func (f Filter) table() string {
	if f.Updated {
		return "thread_index_updated"
	}
	return "thread_index_created"
}

// lead returns the term whose index entries we read: the first key's, or the project's.
func (f Filter) lead() term.Term {
	if len(f.Keys) > 0 {
		return f.term(f.Keys[0])
	}
	return term.OfProject(f.ProjectID)
}

// order returns the list's order, over threads or over the leading term's index entries.
func (f Filter) order() list.Order[Thread] {
	o := list.Order[Thread]{Ascending: f.Ascending, Cursor: f.cursorAt, Position: f.parseCursor}
	if f.isWhole() {
		o.Columns = []string{f.column(), `id`}
		return o
	}
	o.Columns = []string{`position`, `thread_id`}
	if f.Ascending {
		o.Begin = []any{f.lead().First(f.Deleted), ""}
	} else {
		o.Begin = []any{f.lead().End(f.Deleted), ""}
	}
	return o
}

// orderName names the list's order. A cursor is valid for one order only.
func (f Filter) orderName() string {
	if f.Ascending {
		return f.column() + " ASC"
	}
	return f.column() + " DESC"
}

// cursorAt returns the cursor for the page that follows t.
func (f Filter) cursorAt(t Thread) page.Cursor {
	at := t.CreatedAt
	if f.Updated {
		at = t.UpdatedAt
	}
	return page.NewCursor(f.orderName(), int64(at), t.ID)
}

// parseCursor returns a cursor's position. It returns Invalid for another list's cursor.
func (f Filter) parseCursor(c page.Cursor) (position []any, err error) {
	var order, threadID string
	var at int64
	if err := c.Scan(&order, &at, &threadID); err != nil {
		return nil, err
	}
	if order != f.orderName() {
		return nil, errs.InvalidField("query.cursor", "expected a cursor of a list with the same sort and direction")
	}
	if f.isWhole() {
		return []any{at, threadID}, nil
	}
	return []any{f.lead().Position(f.Deleted, stamp.Time(at)), threadID}, nil
}
