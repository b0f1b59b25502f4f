package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/list"
	"steward/internal/page"
	"steward/internal/stamp"
)

// ReceiptFilter selects receipts for a list. Empty fields match all.
type ReceiptFilter struct {
	Search        string       `query:"q" maxLength:"256" doc:"Only those with this text in their body or query string, in any case; headers are never searched. A request looks at a limited number of receipts: the header Steward-Searched-To says how far, and the next link continues there" example:"ORD-1042"`
	State         ReceiptState `query:"state" enum:"succeeded,failing,pending,filtered" doc:"Only those with a destination in this state, as deliveries counts them"`
	DestinationID string       `query:"destinationId" doc:"Only those delivered to this destination; with state, in this state there" example:"whds_01jcq44h7k0n3q6t9w2z5c8f1j"`
	// Since is inclusive, Until is not.
	Since, Until *stamp.Time
}

// Filter selects deliveries for a list. Empty fields match all.
type Filter struct {
	Status        Status `query:"status" enum:"pending,waiting,success,failed,failing" doc:"Only those with this status; waiting are pending ones whose attempt before failed, failing are failed ones after which no attempt to deliver the same has ended"`
	DestinationID string `query:"destinationId" doc:"Only those to this destination" example:"whds_01jcq44h7k0n3q6t9w2z5c8f1j"`
	ReceiptID     string `query:"receiptId" doc:"Only those of this receipt" example:"whrc_01jcq45k1n4q7t0w3z6c9f2h5k"`
	// Since is inclusive, Until is not.
	Since, Until *stamp.Time
}

// isQueued reports whether we can list from the queue, where every pending delivery is. A single
// receipt has few deliveries, so we find those by its id instead.
func (f Filter) isQueued() bool {
	return (f.Status == Pending || f.Status == Waiting) && f.ReceiptID == ""
}

// retriesOnly returns the condition of the partial indexes over waiting attempts, if the filter asks
// for those.
func (f Filter) retriesOnly() string {
	if f.Status == Waiting {
		return " AND retries > 0"
	}
	return ""
}

// isByDestination reports whether we read the rows from an index over the destination and the key.
func (f Filter) isByDestination() bool {
	return f.DestinationID != "" && f.ReceiptID == "" && !f.isQueued()
}

// isCut reports whether we read past the end of the list and drop the older rows. PostgreSQL before 18
// goes through all of a destination's index entries when it finds none below the range. Where the
// index holds nothing but rows that the list shows, it is cheaper to read on into older rows, up to
// the limit, and drop those.
func (f Filter) isCut() bool {
	return f.isByDestination() && (f.Status == "" || f.Status == Failed || f.Status == Failing)
}

// narrow adds the conditions that the index range does not cover.
func (f Filter) narrow(where *list.Conditions) {
	switch {
	case f.isQueued():
		if f.Status == Waiting {
			where.Add(`retries > 0`)
		}
	case f.Status == "":
	case f.Status == Waiting:
		where.Add(`status = 'pending' AND retries > 0`)
	case f.Status == Failed && f.ReceiptID == "":
		where.Add(`failed = true`) // the partial indexes' condition
	case f.Status == Failing && f.ReceiptID == "":
		where.Add(`failing = true`)
	case f.Status == Failing:
		where.Add(`CASE WHEN failing THEN 1 END = 1`) // hidden from indexes
	default:
		where.Equal(`status`, string(f.Status))
	}
	if !f.isByDestination() {
		where.Equal(`destination_id || ''`, f.DestinationID) // hidden from indexes
	}
	where.Equal(`receipt_id`, f.ReceiptID)
}

// receiptList returns a webhook's receipts, newest first, narrowed by a filter.
func (s *Store) receiptList(webhookID string, f ReceiptFilter) list.Query[Receipt] {
	keys := keysOf(webhookID, f.Since, f.Until)
	l := list.Query[Receipt]{
		Name: "receipts", From: list.Text(receiptTable), Where: list.Where(`key >= ?`, keys.from),
		Columns: receiptColumns + listedBody, Scan: s.receiptScanner(webhookID),
	}
	l.Order = list.ByKey([]string{`key`}, id.Receipt, func(r Receipt) string { return r.ID },
		func(receiptID string) []any { return []any{rowKey(webhookID, receiptID)} })
	l.Order.Begin = []any{keys.to}
	return l
}

// deliveryList returns a webhook's deliveries, newest first, narrowed by a filter. Pass it the result
// of Filter.isShort.
//
// The conditions and the order leave the database one index to choose, whatever it expects of the
// values: the one over the destination, over failed or failing deliveries, or over both; otherwise the
// primary key, or the index over the receipt, which has few deliveries.
func deliveryList(orgID, webhookID string, f Filter, isShort bool) list.Query[Delivery] {
	keys := keysOf(webhookID, f.Since, f.Until)
	l := list.Query[Delivery]{
		Name: "deliveries", From: list.Text(deliveryTable), Where: list.Where(`key >= ?`, keys.from),
		Columns: deliveryColumns, Scan: deliveryScanner(hookKey{orgID, webhookID}),
	}
	columns := []string{`key`}
	position := func(key string) []any { return []any{key} }
	switch {
	case f.isByDestination():
		columns = []string{`destination_id`, `key`}
		position = func(key string) []any { return []any{f.DestinationID, key} }
		l.Where = list.Where(`(destination_id, key) >= (?, ?)`, f.DestinationID, keys.from)
	case f.isQueued():
		l.From = f.queue(isShort)
		l.Columns = queueColumns
	}
	if f.isCut() {
		l.Where = list.Where(`(destination_id, key) >= (?, ?)`, f.DestinationID, keysOf(webhookID, nil, nil).from)
		l.End = &list.End[Delivery]{
			Past:   func(d Delivery) bool { return d.key < keys.from },
			Before: list.Text(`key >= ?`, keys.from),
		}
	}
	f.narrow(&l.Where)
	l.Order = list.ByKey(columns, id.Delivery, func(d Delivery) string { return d.ID },
		func(deliveryID string) []any { return position(rowKey(webhookID, deliveryID)) })
	l.Order.Begin = position(keys.to)
	return l
}

// queue returns the table for a list of queued deliveries. The queue keeps a destination's rows in the
// order they are due, not in the list's. If there are few, we read them all before we apply any other
// condition, and sort them.
func (f Filter) queue(isShort bool) list.SQL {
	if !isShort {
		return list.Text(queueTable)
	}
	return list.Text(`(SELECT * FROM webhook_queue WHERE destination_id = ?`+f.retriesOnly()+`
		ORDER BY destination_id, due_at, key LIMIT `+strconv.Itoa(page.MaxCounted)+`) due`, f.DestinationID)
}

// isShort reports whether the list is for one destination with at most page.MaxCounted rows in the
// queue.
func (f Filter) isShort(q db.Querier) (bool, error) {
	if !f.isQueued() || f.DestinationID == "" {
		return false, nil
	}
	var n int
	if err := q.Row(`SELECT count(*) FROM (SELECT 1 FROM webhook_queue WHERE destination_id = $1`+f.retriesOnly()+`
		ORDER BY destination_id, due_at, key LIMIT `+strconv.Itoa(page.MaxCounted+1)+`) due`, f.DestinationID).Scan(&n); err != nil {
		return false, fmt.Errorf("count queue of destination: %w", err)
	}
	return n <= page.MaxCounted, nil
}

const (
	receiptTable  = "webhook_receipts"
	deliveryTable = "webhook_deliveries"
	queueTable    = "webhook_queue"
)

// The body follows receiptColumns.
const receiptColumns = receiptIDColumn + `, date, method, query, remote_addr, content_type, size, headers`

// filteredColumn is how many destinations' filters did not match. Lists read it in addStates.
const filteredColumn = `COALESCE((SELECT f.destinations FROM webhook_filtered f WHERE f.key = webhook_receipts.key), 0), `

// listedBody leaves out a body that is too large for a list.
const listedBody = `, CASE WHEN size <= 65536 THEN body END`

func (r *Receipt) columns() []any {
	return []any{&r.ID, &r.Date, &r.Method, &r.Query, &r.RemoteAddr, &r.ContentType, &r.Size, &r.headerText, &r.body}
}

// receiptScanner returns a function that reads the rows of one page, within the page's budget.
func (s *Store) receiptScanner(webhookID string) func(db.Row) (Receipt, error) {
	var budget page.Budget
	return func(row db.Row) (Receipt, error) {
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
}

// Receipts returns a page of a webhook's receipts, newest first, or NotFound. It does not decode their
// Headers.
func (s *Store) Receipts(ctx context.Context, orgID, webhookID string, f ReceiptFilter, p page.Paging) (Receipts, error) {
	hook := hookKey{orgID, webhookID}
	if f.isWalk() {
		return s.searchReceipts(ctx, hook, f, p)
	}
	q := s.DB.Read(ctx)
	if _, err := get(q, orgID, webhookID); err != nil {
		return Receipts{}, err
	}
	found, err := s.receiptPage(q, hook, f, p)
	if err != nil {
		return Receipts{}, err
	}
	return Receipts{Page: found}, addStates(q, found.Items)
}

func (s *Store) receiptPage(q db.Querier, hook hookKey, f ReceiptFilter, p page.Paging) (page.Page[Receipt], error) {
	l := s.receiptList(hook.webhookID, f)
	if f != (ReceiptFilter{}) {
		return l.CountedPage(q, p, &s.large, s.Now())
	}
	total, err := s.totalOf(q, hook.orgID, hook.webhookID)
	if err != nil {
		return page.Page[Receipt]{}, err
	}
	return l.Page(q, p, total.receipts)
}

// Receipt returns a receipt with its body, or NotFound.
func (s *Store) Receipt(ctx context.Context, orgID, webhookID, receiptID string) (Receipt, error) {
	q := s.DB.Read(ctx)
	if _, err := get(q, orgID, webhookID); err != nil {
		return Receipt{}, err
	}
	r := Receipt{WebhookID: webhookID}
	err := q.Row(`SELECT `+filteredColumn+receiptColumns+`, body FROM webhook_receipts WHERE key = $1`,
		rowKey(webhookID, receiptID)).Scan(append([]any{&r.Filtered}, r.columns()...)...)
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

// deliveryColumns takes the due times from the queue, where every pending delivery is. The conditions
// and the order that find the next attempt leave the planner only the receipt's index.
const deliveryColumns = deliveryIDColumn + `, destination_id, receipt_id, date, status, retries, error, response, replay_id,
	CASE WHEN status = 'pending' THEN (SELECT due_at FROM webhook_queue q WHERE q.key = webhook_deliveries.key) END,
	failing, CASE WHEN failing THEN (SELECT (SELECT due_at FROM webhook_queue q WHERE q.key = n.key) FROM webhook_deliveries n
		WHERE n.receipt_id = webhook_deliveries.receipt_id AND n.destination_id || '' = webhook_deliveries.destination_id
		AND n.status = 'pending' ORDER BY n.key || '' DESC LIMIT 1) END`

// queueColumns yields the same columns from a row in the queue.
const queueColumns = deliveryIDColumn + `, destination_id, ` + queueReceiptID + `, date, 'pending', retries, NULL, NULL, replay_id, due_at,
	false, NULL`

func (d *Delivery) columns() []any {
	return []any{
		&d.ID, &d.DestinationID, &d.ReceiptID, &d.Date, &d.Status, &d.Retries, &d.Error, &d.Response, &d.ReplayID, &d.DueAt,
		&d.Failing, &d.NextDueAt,
	}
}

func scanDelivery(row db.Row, hook hookKey) (Delivery, error) {
	d := Delivery{orgID: hook.orgID, WebhookID: hook.webhookID}
	err := row.Scan(d.columns()...)
	d.key = rowKey(hook.webhookID, d.ID)
	return d, err
}

// deliveryScanner returns a function that reads the rows of one page, within the page's budget.
func deliveryScanner(hook hookKey) func(db.Row) (Delivery, error) {
	var budget page.Budget
	return func(row db.Row) (Delivery, error) {
		d, err := scanDelivery(row, hook)
		if err != nil || d.Response == nil || budget.Take(len(*d.Response)) {
			return d, err
		}
		*d.Response, err = d.Response.withoutBody()
		return d, err
	}
}

// Deliveries returns a page of a webhook's deliveries, newest first, or NotFound.
func (s *Store) Deliveries(ctx context.Context, orgID, webhookID string, f Filter, p page.Paging) (page.Page[Delivery], error) {
	q := s.DB.Read(ctx)
	if _, err := get(q, orgID, webhookID); err != nil {
		return page.Page[Delivery]{}, err
	}
	found, err := s.deliveryPage(q, hookKey{orgID, webhookID}, f, p)
	if err != nil {
		return found, err
	}
	return found, addReceipts(q, webhookID, found.Items)
}

func (s *Store) deliveryPage(q db.Querier, hook hookKey, f Filter, p page.Paging) (page.Page[Delivery], error) {
	isShort, err := f.isShort(q)
	if err != nil {
		return page.Page[Delivery]{}, err
	}
	l := deliveryList(hook.orgID, hook.webhookID, f, isShort)
	isPending := f == Filter{Status: Pending}
	if f != (Filter{}) && !isPending {
		return l.CountedPage(q, p, &s.large, s.Now())
	}
	total, err := s.totalOf(q, hook.orgID, hook.webhookID)
	if err != nil {
		return page.Page[Delivery]{}, err
	}
	if isPending {
		return l.Page(q, p, total.pending)
	}
	return l.Page(q, p, total.deliveries)
}
