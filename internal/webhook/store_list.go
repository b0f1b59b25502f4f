package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
func (f Filter) isQueued() bool { return f.Status == Pending && f.ReceiptID == "" }

// list is the receipts or the deliveries of a webhook, as a filter narrows them.
type list struct {
	table     string
	orgID     string
	webhookID string
	filter    Filter
}

const (
	receiptTable  = "webhook_receipts"
	deliveryTable = "webhook_deliveries"
	queueTable    = "webhook_queue"
)

// conditions builds the WHERE of a statement. Each filter has its own text, and so its own plan.
type conditions struct {
	text strings.Builder
	args []any
}

// add adds a condition up to its argument.
func (c *conditions) add(text string, arg any) {
	c.args = append(c.args, arg)
	c.text.WriteString(text + "$" + strconv.Itoa(len(c.args)))
}

// where adds the conditions for the rows of a list within a range of keys.
func (c *conditions) where(l list, keys keyRange) {
	c.add("key >= ", keys.from)
	c.add(" AND key < ", keys.to)
	f := l.filter
	switch {
	case l.table == queueTable, f.Status == "":
	case f.Status == Failed && f.ReceiptID == "":
		c.text.WriteString(" AND failed") // the condition of a partial index
	default:
		c.add(" AND status = ", string(f.Status))
	}
	if f.DestinationID != "" {
		c.add(" AND destination_id = ", f.DestinationID)
	}
	if f.ReceiptID != "" {
		c.add(" AND receipt_id = ", f.ReceiptID)
	}
}

// page returns the text and arguments of the statement for a page, newest first.
func (l list) page(columns string, p *page.Paging, kind string) (string, []any, error) {
	keys := keysOf(l.webhookID, l.filter.Since, l.filter.Until)
	before := afterAll
	if err := resume(p, kind, &before); err != nil {
		return "", nil, err
	}
	keys.to = min(keys.to, rowKey(l.webhookID, before))
	var c conditions
	c.where(l, keys)
	c.add(" ORDER BY key DESC LIMIT ", p.Limit+1)
	c.add(" OFFSET ", p.Offset)
	return `SELECT ` + columns + ` FROM ` + l.table + ` WHERE ` + c.text.String(), c.args, nil
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
	var c conditions
	c.where(l, keysOf(l.webhookID, l.filter.Since, l.filter.Until))
	var n int64
	if err := q.Row(`SELECT count(*) FROM (SELECT 1 FROM `+l.table+` WHERE `+c.text.String()+
		` LIMIT `+strconv.Itoa(page.MaxCounted+1)+`) matches`, c.args...).Scan(&n); err != nil {
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
	q := s.DB.Read(ctx)
	l := list{table: receiptTable, orgID: orgID, webhookID: webhookID, filter: f}
	text, args, err := l.page(receiptColumns+listedBody, &p, id.Receipt)
	if err != nil {
		return page.Page[Receipt]{}, err
	}
	total, err := s.count(q, l)
	if err != nil {
		return page.Page[Receipt]{}, err
	}
	var budget page.Budget
	rows, err := db.Collect(q, func(row db.Row) (Receipt, error) {
		r := Receipt{WebhookID: webhookID}
		if err := row.Scan(r.columns()...); err != nil {
			return r, err
		}
		if !budget.Take(len(r.body)) {
			return r.withoutPayload(), nil
		}
		return r.withPayload(), nil
	}, text, args...)
	if err != nil {
		return page.Page[Receipt]{}, fmt.Errorf("list receipts: %w", err)
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
	if err := json.Unmarshal([]byte(r.headerText), &r.Headers); err != nil {
		return r, fmt.Errorf("decode headers of receipt: %w", err)
	}
	return r, nil
}

// deliveryColumns has the time from the queue, where every pending delivery is.
const deliveryColumns = deliveryIDColumn + `, destination_id, receipt_id, date, status, retries, error, response, replay_id,
	CASE WHEN status = 'pending' THEN (SELECT due_at FROM webhook_queue q WHERE q.key = webhook_deliveries.key) END`

func (d *Delivery) columns() []any {
	return []any{&d.ID, &d.DestinationID, &d.ReceiptID, &d.Date, &d.Status, &d.Retries, &d.Error, &d.Response, &d.ReplayID, &d.DueAt}
}

func scanDelivery(row db.Row, orgID, webhookID string) (Delivery, error) {
	d := Delivery{orgID: orgID, WebhookID: webhookID}
	err := row.Scan(d.columns()...)
	d.key = rowKey(webhookID, d.ID)
	return d, err
}

// Deliveries returns a page of a webhook's deliveries, newest first, or NotFound.
func (s *Store) Deliveries(ctx context.Context, orgID, webhookID string, f Filter, p page.Paging) (page.Page[Delivery], error) {
	q := s.DB.Read(ctx)
	l := list{table: deliveryTable, orgID: orgID, webhookID: webhookID, filter: f}
	columns := deliveryColumns
	if f.isQueued() {
		l.table = queueTable
		columns = deliveryIDColumn + `, destination_id, ` + queueReceiptID + `, date, 'pending', retries, NULL, NULL, replay_id, due_at`
	}
	text, args, err := l.page(columns, &p, id.Delivery)
	if err != nil {
		return page.Page[Delivery]{}, err
	}
	total, err := s.count(q, l)
	if err != nil {
		return page.Page[Delivery]{}, err
	}
	var budget page.Budget
	rows, err := db.Collect(q, func(row db.Row) (Delivery, error) {
		d, err := scanDelivery(row, orgID, webhookID)
		if err != nil || d.Response == nil || budget.Take(len(*d.Response)) {
			return d, err
		}
		*d.Response, err = d.Response.withoutBody()
		return d, err
	}, text, args...)
	if err != nil {
		return page.Page[Delivery]{}, fmt.Errorf("list deliveries: %w", err)
	}
	return page.New(rows, total, p, func(d Delivery) page.Cursor { return page.NewCursor(d.ID) }), nil
}
