package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/stamp"
)

// receiptColumns are followed by the body.
const receiptColumns = idOfReceipt + `, date, method, query, remote_addr, content_type, size, headers`

// A body over the limit stays unread: it stands on pages of its own, behind all other columns.
const bodyUpTo64K = `, CASE WHEN size <= 65536 THEN body END`

func (r *Receipt) columns() []any {
	return []any{&r.ID, (*int64)(&r.Date), &r.Method, &r.Query, &r.RemoteAddr, &r.ContentType, &r.Size, &r.headerText, &r.body}
}

// Filter narrows a list. Since is inclusive, Until is not.
type Filter struct {
	Status        Status
	DestinationID string
	ReceiptID     string
	Since, Until  *stamp.Time
}

// clauses builds the WHERE of a list: conditions with their arguments. Each filter has its own text, so that each has its own plan.
type clauses struct {
	text strings.Builder
	args []any
}

// add adds a condition's text up to its argument.
func (c *clauses) add(text string, arg any) {
	c.args = append(c.args, arg)
	c.text.WriteString(text + "$" + strconv.Itoa(len(c.args)))
}

// within adds a range of keys.
func (c *clauses) within(k keys) {
	c.add("key >= ", k.from)
	c.add(" AND key < ", k.to)
}

// page adds order and bounds: newest first.
func (c *clauses) page(p page.Paging) string {
	c.add(" ORDER BY key DESC LIMIT ", p.Limit+1)
	c.add(" OFFSET ", p.Offset)
	return c.text.String()
}

// Receipts gives a page of a webhook's receipts, newest first, or NotFound. Their Headers stay undecoded.
func (s *Store) Receipts(ctx context.Context, orgID, webhookID string, f Filter, p page.Paging) (result page.Page[Receipt], err error) {
	on, err := pageKeys(&p, id.Receipt, webhookID, f)
	if err != nil {
		return result, err
	}
	q := s.DB.Read(ctx)
	total, err := s.length(q, list{receiptRows, orgID, webhookID}, f)
	if err != nil {
		return result, err
	}
	var c clauses
	c.within(on)
	rows := make([]Receipt, 0, p.Room(total))
	for r, err := range db.Each(q, (*Receipt).columns, `SELECT `+receiptColumns+bodyUpTo64K+` FROM webhook_receipts
		WHERE `+c.page(p), c.args...) {
		if err != nil {
			return result, err
		}
		r.WebhookID = webhookID
		rows = append(rows, r.show())
	}
	return page.New(rows, total, p, func(r Receipt) page.Cursor { return page.NewCursor(r.ID) }), nil
}

// Receipt gives a receipt whole, or NotFound.
func (s *Store) Receipt(ctx context.Context, orgID, webhookID, receiptID string) (Receipt, error) {
	q := s.DB.Read(ctx)
	if _, err := get(q, orgID, webhookID); err != nil {
		return Receipt{}, err
	}
	r, err := receipt(q, webhookID, receiptID)
	if errors.Is(err, db.ErrNoRows) || err == nil && !id.Is(id.Receipt, receiptID) {
		return Receipt{}, errs.Missing("receipt", receiptID)
	}
	return r, err
}

func receipt(q db.Querier, webhookID, receiptID string) (Receipt, error) {
	r := Receipt{WebhookID: webhookID}
	if err := q.Row(`SELECT `+receiptColumns+`, body FROM webhook_receipts WHERE key = $1`, rowKey(webhookID, receiptID)).
		Scan(r.columns()...); err != nil {
		return r, err
	}
	return r, json.Unmarshal([]byte(r.headerText), &r.Headers)
}
