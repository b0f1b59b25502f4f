package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Filter narrows a list. Since is inclusive, Until is not.
type Filter struct {
	Status        Status
	DestinationID string
	ReceiptID     string
	Since, Until  *stamp.Time
}

// isQueued reports whether the queue has all rows that match: every pending delivery is there. The
// few of one receipt are found by its id.
func (f Filter) isQueued() bool {
	return (f.Status == Pending || f.Status == Waiting) && f.ReceiptID == ""
}

// retriesOnly returns the condition of the indexes of waiting attempts, if the filter is for them.
func (f Filter) retriesOnly() string {
	if f.Status == Waiting {
		return " AND retries > 0"
	}
	return ""
}

// list is the receipts or the deliveries of a webhook, as a filter narrows them.
type list struct {
	table     string
	kind      string // of the ids
	orgID     string
	webhookID string
	filter    Filter
	// isShort reports whether the queue has at most page.MaxCounted rows of the filter's destination.
	isShort bool
}

const (
	receiptTable  = "webhook_receipts"
	deliveryTable = "webhook_deliveries"
	queueTable    = "webhook_queue"
)

// statement is the text of a SELECT and its arguments. Each filter has its own text, and so its own
// plan.
type statement struct {
	text strings.Builder
	args []any
}

// add adds text that ends with an argument.
func (s *statement) add(text string, arg any) {
	s.args = append(s.args, arg)
	s.text.WriteString(text + "$" + strconv.Itoa(len(s.args)))
}

// rows returns the statement for the rows of a list within a range of keys, newest first. It has no
// limit yet.
//
// The conditions and the order leave one index to choose, whatever the database expects of the values:
// that of the destination, of failed or failing deliveries, or of both; else the primary key, or the index of the
// receipt, which has few deliveries.
func (l list) rows(columns string, keys keyRange) *statement {
	s := &statement{}
	s.text.WriteString(`SELECT ` + columns + ` FROM `)
	l.from(s)
	if l.isByDestination() {
		s.add(` WHERE (destination_id, key) >= (`, l.filter.DestinationID)
		s.add(`, `, l.readFrom(keys))
		s.add(`) AND (destination_id, key) < (`, l.filter.DestinationID)
		s.add(`, `, keys.to)
		s.text.WriteString(`)`)
	} else {
		s.add(` WHERE key >= `, keys.from)
		s.add(` AND key < `, keys.to)
	}
	l.narrow(s)
	if l.isByDestination() {
		s.text.WriteString(` ORDER BY destination_id DESC, key DESC`)
	} else {
		s.text.WriteString(` ORDER BY key DESC`)
	}
	return s
}

// readFrom returns the first key that may be read. PostgreSQL before 18 goes through all entries of the
// destination in an index when it finds none below the range, so where the index has nothing but what is
// listed, older rows are read instead, as many as the limit allows, and left out (cut).
func (l list) readFrom(keys keyRange) string {
	if l.isCut() {
		return keysOf(l.webhookID, nil, nil).from
	}
	return keys.from
}

// isCut reports whether the rows of the list end with some that are older than its range.
func (l list) isCut() bool {
	return l.isByDestination() && (l.filter.Status == "" || l.filter.Status == Failed || l.filter.Status == Failing)
}

// cut returns the deliveries that are not older than the list.
func (l list) cut(rows []Delivery) []Delivery {
	from := keysOf(l.webhookID, l.filter.Since, nil).from
	if i := slices.IndexFunc(rows, func(d Delivery) bool { return d.key < from }); i >= 0 {
		return rows[:i]
	}
	return rows
}

// isByDestination reports whether the rows are read from an index of the destination and the key.
func (l list) isByDestination() bool {
	return l.table == deliveryTable && l.filter.DestinationID != "" && l.filter.ReceiptID == ""
}

// from adds the table. Of the queue, the rows of a destination are in the order in which they are due:
// if they are few, they are read before any other condition is met, and sorted.
func (l list) from(s *statement) {
	if !l.isShort {
		s.text.WriteString(l.table)
		return
	}
	s.add(`(SELECT * FROM webhook_queue WHERE destination_id = `, l.filter.DestinationID)
	s.text.WriteString(l.filter.retriesOnly() + ` ORDER BY destination_id, due_at, key LIMIT ` + strconv.Itoa(page.MaxCounted) + `) due`)
}

// narrow adds the conditions of the filter that the range of an index does not meet.
func (l list) narrow(s *statement) {
	f := l.filter
	switch {
	case l.table == queueTable:
		s.text.WriteString(f.retriesOnly())
	case f.Status == "":
	case f.Status == Waiting:
		s.text.WriteString(" AND status = 'pending' AND retries > 0")
	case f.Status == Failed && f.ReceiptID == "":
		s.text.WriteString(" AND failed = true") // the condition of partial indexes
	case f.Status == Failing && f.ReceiptID == "":
		s.text.WriteString(" AND failing = true")
	case f.Status == Failing:
		s.text.WriteString(" AND CASE WHEN failing THEN 1 END = 1") // not a condition for an index
	default:
		s.add(" AND status = ", string(f.Status))
	}
	if f.DestinationID != "" && !l.isByDestination() {
		s.add(" AND destination_id || '' = ", f.DestinationID) // not a condition for an index
	}
	if f.ReceiptID != "" {
		s.add(" AND receipt_id = ", f.ReceiptID)
	}
}

// prepare sets how the rows of a list are read.
func (l *list) prepare(q db.Querier) error {
	if l.table != queueTable || l.filter.DestinationID == "" {
		return nil
	}
	var n int
	if err := q.Row(`SELECT count(*) FROM (SELECT 1 FROM webhook_queue WHERE destination_id = $1`+l.filter.retriesOnly()+`
		ORDER BY destination_id, due_at, key LIMIT `+strconv.Itoa(page.MaxCounted+1)+`) due`, l.filter.DestinationID).Scan(&n); err != nil {
		return fmt.Errorf("count queue of destination: %w", err)
	}
	l.isShort = n <= page.MaxCounted
	return nil
}

// readPage returns the rows of a page and one more, newest first, and how many the list has. It returns
// NotFound if the webhook is missing, and Invalid for a cursor of another list.
func readPage[T any](ctx context.Context, s *Store, l list, columns string, p *page.Paging, scan func(db.Row) (T, error)) (rows []T, total int64, err error) {
	before := afterAll
	if err := resume(p, l.kind, &before); err != nil {
		return nil, 0, err
	}
	q := s.DB.Read(ctx)
	if err := l.prepare(q); err != nil {
		return nil, 0, err
	}
	if total, err = s.count(q, l); err != nil {
		return nil, 0, err
	}
	keys := keysOf(l.webhookID, l.filter.Since, l.filter.Until)
	keys.to = min(keys.to, rowKey(l.webhookID, before))
	offset := p.Offset
	if p.IsDeep() {
		keys.to, err = l.keyAt(q, keys, offset-1)
		if errors.Is(err, db.ErrNoRows) {
			return nil, total, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("find page of %s: %w", l.table, err)
		}
		offset = 0
	}
	st := l.rows(columns, keys)
	st.add(" LIMIT ", p.Limit+1)
	st.add(" OFFSET ", offset)
	if rows, err = db.Collect(q, scan, st.text.String(), st.args...); err != nil {
		return nil, 0, fmt.Errorf("list %s: %w", l.table, err)
	}
	return rows, total, nil
}

// keyAt returns the key of the nth row of a list, or db.ErrNoRows. It reads keys only.
func (l list) keyAt(q db.Querier, keys keyRange, n int) (key string, err error) {
	st := l.rows("key", keys)
	st.add(" LIMIT 1 OFFSET ", n)
	return key, q.Row(st.text.String(), st.args...).Scan(&key)
}

// count returns how many rows a list has, or NotFound if its webhook is missing. A whole list has a
// counter. What a filter leaves is counted up to page.MaxCounted; beyond it is page.Unknown, which
// is cached.
func (s *Store) count(q db.Querier, l list) (int64, error) {
	if _, err := get(q, l.orgID, l.webhookID); err != nil {
		return 0, err
	}
	if n, counted, err := s.whole(q, l); counted || err != nil {
		return n, err
	}
	key := l.cacheKey()
	if s.large.IsLarge(key, s.Now()) {
		return page.Unknown, nil
	}
	keys := keysOf(l.webhookID, l.filter.Since, l.filter.Until)
	st := l.rows("key", keys)
	st.add(` LIMIT `+strconv.Itoa(page.MaxCounted+1)+`) matches WHERE key >= `, keys.from)
	var n int64
	if err := q.Row(`SELECT count(*) FROM (`+st.text.String(), st.args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count %s: %w", l.table, err)
	}
	if n > page.MaxCounted {
		s.large.SetLarge(key, s.Now())
		return page.Unknown, nil
	}
	return n, nil
}

// whole returns the length of a list that has a counter, and reports whether it has one.
func (s *Store) whole(q db.Querier, l list) (n int64, counted bool, err error) {
	pending := l.filter == (Filter{Status: Pending})
	if l.filter != (Filter{}) && !pending {
		return 0, false, nil
	}
	sum, err := s.totalOf(q, l.orgID, l.webhookID)
	switch {
	case pending:
		n = sum.pending
	case l.table == receiptTable:
		n = sum.receipts
	default:
		n = sum.deliveries
	}
	return n, true, err
}

// countKey is a list as the key of a cache: with times by value.
type countKey struct {
	list
	since, until stamp.Time
}

func (l list) cacheKey() countKey {
	k := countKey{list: l, since: -1, until: -1}
	if l.filter.Since != nil {
		k.since = *l.filter.Since
	}
	if l.filter.Until != nil {
		k.until = *l.filter.Until
	}
	k.filter.Since = nil
	k.filter.Until = nil
	return k
}

// receiptColumns are followed by the body.
const receiptColumns = receiptIDColumn + `, date, method, query, remote_addr, content_type, size, headers`

// listedBody leaves out a body that is too large for a list.
const listedBody = `, CASE WHEN size <= 65536 THEN body END`

func (r *Receipt) columns() []any {
	return []any{&r.ID, &r.Date, &r.Method, &r.Query, &r.RemoteAddr, &r.ContentType, &r.Size, &r.headerText, &r.body}
}

// Receipts returns a page of a webhook's receipts, newest first, or NotFound. Their Headers are not
// decoded.
func (s *Store) Receipts(ctx context.Context, orgID, webhookID string, f Filter, p page.Paging) (page.Page[Receipt], error) {
	l := list{table: receiptTable, kind: id.Receipt, orgID: orgID, webhookID: webhookID, filter: f}
	var budget page.Budget
	scan := func(row db.Row) (Receipt, error) {
		r := Receipt{WebhookID: webhookID}
		if err := row.Scan(r.columns()...); err != nil {
			return r, err
		}
		s.openListed(&r)
		if !budget.Take(len(r.body)) {
			return r.withoutPayload(), nil
		}
		return r.withPayload(), nil
	}
	rows, total, err := readPage(ctx, s, l, receiptColumns+listedBody, &p, scan)
	if err != nil {
		return page.Page[Receipt]{}, err
	}
	return page.New(rows, total, p, func(r Receipt) page.Cursor { return page.NewCursor(r.ID) }), nil
}

// Receipt returns a receipt with its body, or NotFound.
func (s *Store) Receipt(ctx context.Context, orgID, webhookID, receiptID string) (Receipt, error) {
	q := s.DB.Read(ctx)
	if _, err := get(q, orgID, webhookID); err != nil {
		return Receipt{}, err
	}
	r := Receipt{WebhookID: webhookID}
	err := q.Row(`SELECT `+receiptColumns+`, body FROM webhook_receipts WHERE key = $1`, rowKey(webhookID, receiptID)).Scan(r.columns()...)
	if errors.Is(err, db.ErrNoRows) || err == nil && !id.Is(id.Receipt, receiptID) {
		return r, errs.Missing("receipt", receiptID)
	}
	if err != nil {
		return r, fmt.Errorf("read receipt: %w", err)
	}
	if r.headerText, err = s.openHeaders(webhookID, r.headerText); err != nil {
		return r, fmt.Errorf("read receipt: %w", err)
	}
	if err := json.Unmarshal([]byte(r.headerText), &r.Headers); err != nil {
		return r, fmt.Errorf("decode headers of receipt: %w", err)
	}
	return r, nil
}

// deliveryColumns has the times from the queue, where every pending delivery is. The conditions and the
// order by which the next attempt is found leave only the index of the receipt to choose.
const deliveryColumns = deliveryIDColumn + `, destination_id, receipt_id, date, status, retries, error, response, replay_id,
	CASE WHEN status = 'pending' THEN (SELECT due_at FROM webhook_queue q WHERE q.key = webhook_deliveries.key) END,
	failing, CASE WHEN failing THEN (SELECT (SELECT due_at FROM webhook_queue q WHERE q.key = n.key) FROM webhook_deliveries n
		WHERE n.receipt_id = webhook_deliveries.receipt_id AND n.destination_id || '' = webhook_deliveries.destination_id
		AND n.status = 'pending' ORDER BY n.key || '' DESC LIMIT 1) END`

// queueColumns are the same of a row of the queue.
const queueColumns = deliveryIDColumn + `, destination_id, ` + queueReceiptID + `, date, 'pending', retries, NULL, NULL, replay_id, due_at,
	false, NULL`

func (d *Delivery) columns() []any {
	return []any{
		&d.ID, &d.DestinationID, &d.ReceiptID, &d.Date, &d.Status, &d.Retries, &d.Error, &d.Response, &d.ReplayID, &d.DueAt,
		&d.Failing, &d.NextDueAt,
	}
}

func scanDelivery(row db.Row, orgID, webhookID string) (Delivery, error) {
	d := Delivery{orgID: orgID, WebhookID: webhookID}
	err := row.Scan(d.columns()...)
	d.key = rowKey(webhookID, d.ID)
	return d, err
}

// Deliveries returns a page of a webhook's deliveries, newest first, or NotFound.
func (s *Store) Deliveries(ctx context.Context, orgID, webhookID string, f Filter, p page.Paging) (page.Page[Delivery], error) {
	l := list{table: deliveryTable, kind: id.Delivery, orgID: orgID, webhookID: webhookID, filter: f}
	columns := deliveryColumns
	if f.isQueued() {
		l.table = queueTable
		columns = queueColumns
	}
	var budget page.Budget
	scan := func(row db.Row) (Delivery, error) {
		d, err := scanDelivery(row, orgID, webhookID)
		if err != nil || d.Response == nil || budget.Take(len(*d.Response)) {
			return d, err
		}
		*d.Response, err = d.Response.withoutBody()
		return d, err
	}
	rows, total, err := readPage(ctx, s, l, columns, &p, scan)
	if err != nil {
		return page.Page[Delivery]{}, err
	}
	rows = l.cut(rows)
	return page.New(rows, total, p, func(d Delivery) page.Cursor { return page.NewCursor(d.ID) }), nil
}
