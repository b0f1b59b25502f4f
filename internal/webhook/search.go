package webhook

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/list"
	"steward/internal/page"
	"steward/internal/period"
	"steward/internal/stamp"
)

// No index has what a search looks for: one over bodies would make every receipt dearer to store. So a
// search walks the receipts, newest first, in short statements that hold nothing between them. A request
// ends after lookFor or maxLooked receipts, says how far it looked, and the next one continues there.
// Searches never see headers, so nobody can guess at those that show as ***.

const (
	// maxLooked and lookFor bound the receipts that a request looks at, and roughly its time.
	maxLooked = 200_000
	lookFor   = time.Second
	// minRows and maxRows bound the receipts of one statement. Between them we aim at walkBytes.
	minRows   = 16
	maxRows   = 512
	walkBytes = 4 << 20
)

// ReceiptState selects receipts with a destination in this state, as DeliveryStates counts them.
type ReceiptState string

// The states.
const (
	ReceiptSucceeded ReceiptState = "succeeded"
	ReceiptFailing   ReceiptState = "failing"
	ReceiptPending   ReceiptState = "pending"
	ReceiptFiltered  ReceiptState = "filtered"
)

// stateConditions select the deliveries to one destination whose last ended attempt leaves it in a state.
var stateConditions = map[ReceiptState]string{
	"":               `1 = 1`,
	ReceiptSucceeded: `MAX(CASE WHEN d.status <> 'pending' THEN 1 ELSE 0 END) = 1 AND MAX(CASE WHEN d.failing THEN 1 ELSE 0 END) = 0`,
	ReceiptFailing:   `MAX(CASE WHEN d.failing THEN 1 ELSE 0 END) = 1`,
	ReceiptPending:   `MAX(CASE WHEN d.status <> 'pending' THEN 1 ELSE 0 END) = 0`,
}

// isWalk reports whether we must look at receipts one by one.
func (f ReceiptFilter) isWalk() bool { return f.Search != "" || f.State != "" || f.DestinationID != "" }

// within returns a request's filter, or Invalid.
func (f ReceiptFilter) within(b period.Between, p page.Paging) (ReceiptFilter, error) {
	var faults errs.Faults
	f.Since, f.Until = b.Times(&faults)
	faults.Check(f.State != ReceiptFiltered || f.DestinationID == "", "query.destinationId",
		"expected none with state filtered: only the number of destinations is kept")
	faults.Check(p.Offset == 0 || !f.isWalk(), "query.offset", "expected 0 with q, state or destinationId; use the cursor from the next link")
	return f, faults.Err()
}

// selected returns an expression that is 1 for the receipts in r that the state and destination select.
// It leaves the database only the index over the receipt.
func (f ReceiptFilter) selected() list.SQL {
	switch {
	case f.State == ReceiptFiltered:
		return list.Text(`(SELECT 1 FROM webhook_filtered f WHERE f.key = r.key)`)
	case f.State == "" && f.DestinationID == "":
		return list.Text(`1`)
	}
	where := list.Where(`d.receipt_id = '` + id.Receipt + `_' || substr(r.key, 27)`)
	where.Equal(`d.destination_id || ''`, f.DestinationID)
	return list.Text(`(SELECT 1 FROM webhook_deliveries d WHERE ? GROUP BY d.destination_id || '' HAVING `+
		stateConditions[f.State]+` LIMIT 1)`, where)
}

// walk is a walk through a webhook's receipts, newest first.
type walk struct {
	hook   hookKey
	filter ReceiptFilter
	needle []byte   // what to search for, in lower case
	keys   keyRange // what we have not looked at yet
	rows   int      // how many receipts to look at next

	looked int
	last   walked // the last receipt that we looked at
	done   bool
}

// walked is a receipt that a walk looks at.
type walked struct {
	key     string
	date    stamp.Time
	size    int64
	matches bool
}

func (w walked) receiptID() string { return id.Receipt + "_" + w.key[len(w.key)/2:] }

// newWalk returns a walk that begins after a cursor, if that is not empty.
func newWalk(hook hookKey, f ReceiptFilter, after page.Cursor) (*walk, error) {
	w := &walk{
		hook: hook, filter: f, needle: bytes.ToLower([]byte(f.Search)), keys: keysOf(hook.webhookID, f.Since, f.Until), rows: 4 * minRows,
	}
	if after == "" {
		return w, nil
	}
	var last string
	if err := after.Scan(&last); err != nil {
		return nil, err
	}
	if !id.Is(id.Receipt, last) {
		return nil, errs.InvalidField("query.cursor", "expected a cursor from the next link of this list")
	}
	w.keys.to = min(w.keys.to, rowKey(hook.webhookID, last))
	return w, nil
}

// next looks at some more receipts and returns those that match, or NotFound if the webhook is gone.
func (s *Store) next(ctx context.Context, w *walk) ([]walked, error) {
	if err := s.Walks.Enter(ctx, w.hook.orgID, ""); err != nil {
		return nil, err
	}
	defer s.Walks.Leave(w.hook.orgID)
	q := s.DB.Read(ctx)
	if _, err := get(q, w.hook.orgID, w.hook.webhookID); err != nil {
		return nil, err
	}
	columns := ``
	if len(w.needle) > 0 {
		columns = `, r.query, r.body`
	}
	text, args := list.Text(`SELECT r.key, r.date, r.size, ?`+columns+` FROM webhook_receipts r
		WHERE r.key >= ? AND r.key < ? ORDER BY r.key DESC LIMIT ?`, w.filter.selected(), w.keys.from, w.keys.to, w.rows).Statement()
	rows, err := db.Collect(q, w.scan, text, args...)
	if err != nil {
		return nil, fmt.Errorf("look at receipts: %w", err)
	}
	w.looked += len(rows)
	w.done = len(rows) < w.rows
	if w.done {
		return slices.DeleteFunc(rows, func(r walked) bool { return !r.matches }), nil
	}
	w.last = rows[len(rows)-1]
	w.keys.to = w.last.key
	var size int64
	for _, r := range rows {
		size += r.size
	}
	w.rows = min(max(int(walkBytes*int64(len(rows))/(size+1)), minRows), 2*w.rows, maxRows)
	return slices.DeleteFunc(rows, func(r walked) bool { return !r.matches }), nil
}

func (w *walk) scan(row db.Row) (r walked, err error) {
	var selected *int64
	var query string
	var body []byte
	columns := []any{&r.key, &r.date, &r.size, &selected}
	if len(w.needle) > 0 {
		columns = append(columns, &query, &body)
	}
	if err := row.Scan(columns...); err != nil {
		return r, err
	}
	r.matches = selected != nil && (len(w.needle) == 0 || contains(query, body, w.needle))
	return r, nil
}

// contains reports whether a query string or body contains a text, in any case. The text may also be as
// people read it: a query string with %20 for a space, JSON with \u00fc for ü.
func contains(query string, body, lower []byte) bool {
	if bytes.Contains(bytes.ToLower(body), lower) || strings.Contains(strings.ToLower(query), string(lower)) {
		return true
	}
	if decoded, err := url.QueryUnescape(query); err == nil && strings.Contains(strings.ToLower(decoded), string(lower)) {
		return true
	}
	if bytes.IndexByte(body, '\\') < 0 {
		return false
	}
	value := jsontext.Value(body)
	return value.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)) == nil &&
		bytes.Contains(bytes.ToLower(value), lower)
}

// searchReceipts returns a page of the receipts that a filter selects. Unless the search is complete, it
// has a cursor, even if the page is empty.
func (s *Store) searchReceipts(ctx context.Context, hook hookKey, f ReceiptFilter, p page.Paging) (Receipts, error) {
	w, err := newWalk(hook, f, p.Cursor)
	if err != nil {
		return Receipts{}, err
	}
	var found []walked
	for began := time.Now(); !w.done && len(found) < p.Limit && w.looked < maxLooked && time.Since(began) < lookFor; {
		matches, err := s.next(ctx, w)
		if err != nil {
			return Receipts{}, err
		}
		found = append(found, matches...)
	}
	if len(found) > p.Limit {
		found = found[:p.Limit]
		w.last = found[p.Limit-1]
		w.done = false
	}
	result := Receipts{Page: page.Page[Receipt]{Total: page.Unknown, Paging: p}}
	switch {
	case p.Limit == 0:
		_, err := get(s.DB.Read(ctx), hook.orgID, hook.webhookID)
		return result, err
	case !w.done:
		result.searchedTo = &w.last.date
		result.Next = page.NewCursor(w.last.receiptID())
	case p.Cursor == "":
		result.Total = int64(len(found))
	}
	result.Items, err = s.listed(s.DB.Read(ctx), hook.webhookID, found, listedBody)
	return result, err
}

// listed returns receipts with their states, newest first, in the form lists show. It leaves out those that
// are gone.
func (s *Store) listed(q db.Querier, webhookID string, rows []walked, bodyColumn string) ([]Receipt, error) {
	keys := make(db.Bulk[string], len(rows))
	for i, r := range rows {
		keys[i] = r.key
	}
	receipts, err := db.CollectBulk(q, keys, s.receiptScanner(webhookID),
		`SELECT `+receiptColumns+bodyColumn+` FROM {v} CROSS JOIN webhook_receipts WHERE key = v.value`)
	if err != nil {
		return nil, fmt.Errorf("read receipts: %w", err)
	}
	slices.SortFunc(receipts, func(a, b Receipt) int { return strings.Compare(b.ID, a.ID) })
	return receipts, addStates(q, receipts)
}

// searchedTo is the header that says how far a search looked.
const searchedTo = "Steward-Searched-To"

// MoreHeaders names the headers that SetHeaders sets beyond those of other lists.
func (Receipts) MoreHeaders() []string { return []string{searchedTo} }

// SetHeaders adds how far a search looked.
func (p Receipts) SetHeaders(h http.Header, path string, query url.Values) {
	p.Page.SetHeaders(h, path, query)
	if p.searchedTo != nil {
		h.Set(searchedTo, p.searchedTo.String())
	}
}

// ReceiptNeighbors are the receipts beside another one.
type ReceiptNeighbors struct {
	_ struct{} `goName:"WebhookReceiptNeighbors"`

	Newer *string `json:"newer,omitempty" nullable:"false" doc:"Id of the next newer receipt; absent if there is none" example:"whrc_01jcq45k1n4q7t0w3z6c9f2h5m"`
	Older *string `json:"older,omitempty" nullable:"false" doc:"Id of the next older receipt; absent if there is none" example:"whrc_01jcq45k1n4q7t0w3z6c9f2h5j"`
}

// neighbors returns the receipts beside another one, or NotFound.
func (s *Store) neighbors(ctx context.Context, hook hookKey, receiptID string) (n ReceiptNeighbors, err error) {
	q := s.DB.Read(ctx)
	if _, err := get(q, hook.orgID, hook.webhookID); err != nil {
		return n, err
	}
	exists := false
	keys := keysOf(hook.webhookID, nil, nil)
	key := keys.from + bare(receiptID)
	err = q.Row(`SELECT (SELECT '`+id.Receipt+`_' || substr(key, 27) FROM webhook_receipts WHERE key > $1 AND key < $2 ORDER BY key LIMIT 1),
		(SELECT '`+id.Receipt+`_' || substr(key, 27) FROM webhook_receipts WHERE key < $1 AND key >= $3 ORDER BY key DESC LIMIT 1),
		EXISTS (SELECT 1 FROM webhook_receipts WHERE key = $1)`, key, keys.to, keys.from).Scan(&n.Newer, &n.Older, &exists)
	if err != nil {
		return n, fmt.Errorf("find receipts beside another: %w", err)
	}
	if !exists || !id.Is(id.Receipt, receiptID) {
		return ReceiptNeighbors{}, errs.Missing("receipt", receiptID)
	}
	return n, nil
}
