package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Store is the SQL of this package.
type Store struct {
	DB  *db.DB
	Now func() time.Time
	// Request returns id and remote address of the request that a context belongs to. It may be
	// nil.
	Request func(context.Context) (requestID, remoteAddr string)
}

// Record writes an entry about what the transaction's caller does. A caller with neither user nor
// client is Steward itself. Without a caller, as at the first start, Record writes nothing: the entry would
// belong to no organization.
func (s *Store) Record(tx *db.Tx, action, target string) error {
	caller := auth.Lookup(tx.Context())
	if caller == nil {
		return nil
	}
	var requestID, remoteAddr string
	if s.Request != nil {
		requestID, remoteAddr = s.Request(tx.Context())
	}
	now := s.Now()
	err := tx.Send(`INSERT INTO audit (org_id, id, at, user_id, key_id, client_id, thing, action, target,
		remote_addr, request_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		caller.OrgID, id.At(id.Audit, now), stamp.Of(now), nullable(caller.UserID), nullable(caller.KeyID),
		nullable(caller.ClientID), thingOf(action), action, target, remoteAddr, requestID)
	if err != nil {
		return fmt.Errorf("insert audit entry: %w", err)
	}
	return nil
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// List returns a page of the entries of an organization's log that a filter matches, newest first. It
// returns Invalid for a cursor of another list.
//
// It reads the index of one value of the filter, in the order of the log, from where the page begins.
// Of several values it reads that with the fewest entries and skips those without the other values, so
// that a page costs as much as it holds if one value decides, and at most one pass over the entries of
// that value.
func (s *Store) List(ctx context.Context, orgID string, f Filter, p page.Paging) (page.Page[Entry], error) {
	before := afterAll
	if p.Cursor != "" {
		if err := p.Cursor.Scan(&before); err != nil {
			return page.Page[Entry]{}, err
		}
		p.Offset = 0
	}
	q := s.DB.Read(ctx)
	values, err := rarestFirst(q, f.between(orgID, before), f.equalities())
	if err != nil {
		return page.Page[Entry]{}, fmt.Errorf("count audit entries: %w", err)
	}
	text, args := listQuery(q.Dialect(), f.between(orgID, before), values, p)
	entries, err := db.Collect(q, scanEntry, text, args...)
	if err != nil {
		return page.Page[Entry]{}, fmt.Errorf("list audit entries: %w", err)
	}
	return page.New(entries, page.Unknown, p, func(e Entry) page.Cursor { return page.NewCursor(e.ID) }), nil
}

// maxProbed is the number up to which entries are counted to find the value with the fewest.
const maxProbed = 1000

// rarestFirst sorts the values of a filter by the number of their entries.
func rarestFirst(q db.Querier, within *conditions, values []equality) ([]equality, error) {
	if len(values) < 2 {
		return values, nil
	}
	sizes := map[equality]int{}
	for _, v := range values {
		c := conditions{text: within.text, args: slices.Clone(within.args)}
		c.add(v.column+` =`, v.value)
		text := fmt.Sprintf(`SELECT count(*) FROM (SELECT 1 FROM %s WHERE %s ORDER BY id DESC LIMIT %d) x`,
			v.table(q.Dialect()), c.text, maxProbed)
		var n int
		if err := q.Row(text, c.args...).Scan(&n); err != nil {
			return nil, err
		}
		sizes[v] = n
	}
	return slices.SortedStableFunc(slices.Values(values), func(a, b equality) int { return cmp.Compare(sizes[a], sizes[b]) }), nil
}

// listQuery returns the statement of a page, which reads the index of the first value.
func listQuery(dialect db.Dialect, c *conditions, values []equality, p page.Paging) (text string, args []any) {
	table := `audit`
	if len(values) > 0 {
		table = values[0].table(dialect)
	}
	for _, v := range values {
		c.add(v.column+` =`, v.value)
	}
	n := len(c.args)
	text = fmt.Sprintf(`SELECT id, at, user_id, key_id, client_id, action, target, remote_addr, request_id FROM %s
		WHERE %s ORDER BY id DESC LIMIT $%d OFFSET $%d`, table, c.text, n+1, n+2)
	return text, append(c.args, p.Limit+1, p.Offset)
}

func scanEntry(row db.Row) (e Entry, err error) {
	err = row.Scan(&e.ID, &e.At, &e.UserID, &e.KeyID, &e.ClientID, &e.Action, &e.Target, &e.RemoteAddr, &e.RequestID)
	return e, err
}
