package webhook

import (
	"context"
	"errors"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/stamp"
	"steward/internal/web"
)

const deliveryColumns = `id, destination_id, receipt_id, date, status, retries, error, response`

// storedDelivery is a row of deliveries: some columns are read as what the database has them as, and then put into their fields.
type storedDelivery struct {
	Delivery
	retries  int64
	response *string
}

func (r *storedDelivery) columns() []any {
	return []any{
		&r.ID, &r.DestinationID, &r.ReceiptID, (*int64)(&r.Date), (*string)(&r.Status), &r.retries, &r.Error, &r.response,
	}
}

// of gives the delivery, which is one of this webhook.
func (r *storedDelivery) of(orgID, webhookID string) Delivery {
	d := r.Delivery
	d.orgID, d.WebhookID, d.Retries, d.Response = orgID, webhookID, int(r.retries), (*Answer)(r.response)
	return d
}

// Deliveries gives a page of a webhook's deliveries, newest first, or NotFound.
func (s *Store) Deliveries(ctx context.Context, orgID, webhookID string, f Filter, p web.Paging) (page web.Page[Delivery], err error) {
	before := afterAll
	if err := resume(&p, id.Delivery, &before); err != nil {
		return page, err
	}
	q := s.DB.Read(ctx)
	table, columns := deliveryRows, deliveryColumns
	if f.queued() {
		table, columns = queueRows, "id, destination_id, receipt_id, date, 'pending', retries, NULL, NULL"
	}
	total, err := s.length(q, list{table, id.Delivery, orgID, webhookID}, f)
	if err != nil {
		return page, err
	}
	var c clauses
	c.within(id.Delivery, orgID, webhookID, f)
	c.narrow(f)
	rows := make([]Delivery, 0, p.Room(total))
	for row, err := range db.Each(q, (*storedDelivery).columns, `SELECT `+columns+` FROM `+table+` WHERE `+c.page(before, p), c.args...) {
		if err != nil {
			return page, err
		}
		rows = append(rows, row.of(orgID, webhookID))
	}
	return web.NewPage(rows, total, p, func(d Delivery) web.Cursor { return web.NewCursor(d.ID) }), nil
}

// delivery gives a delivery of a webhook, the first one for which the rest of the condition holds, or ErrNoRows.
func delivery(q db.Querier, orgID, webhookID, rest string, args ...any) (Delivery, error) {
	var row storedDelivery
	err := q.Row(`SELECT `+deliveryColumns+` FROM webhook_deliveries WHERE org_id = $1 AND webhook_id = $2 AND `+rest,
		append([]any{orgID, webhookID}, args...)...).Scan(row.columns()...)
	return row.of(orgID, webhookID), err
}

// queued tells whether the queue answers a filter: all that is pending is there. The few of one receipt are found by its id.
func (f Filter) queued() bool { return f.Status == Pending && f.ReceiptID == "" }

// narrow adds the filters that deliveries have beyond time. The index of failed ones is found by its own condition.
func (c *clauses) narrow(f Filter) {
	switch {
	case f.queued():
	case f.Status == Failed && f.ReceiptID == "":
		c.text.WriteString(" AND failed")
	case f.Status != "":
		c.add(" AND status = ", string(f.Status))
	}
	if f.DestinationID != "" {
		c.add(" AND destination_id = ", f.DestinationID)
	}
	if f.ReceiptID != "" {
		c.add(" AND receipt_id = ", f.ReceiptID)
	}
}

// Retry makes the waiting attempt of a failed delivery's chain due now, or adds one, and gives it. NotFound; Conflict when the delivery is
// not failed, its destination is gone or disabled, or its receipt is no longer kept.
func (s *Store) Retry(ctx context.Context, orgID, webhookID, deliveryID string) (d Delivery, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := get(tx, orgID, webhookID); err != nil {
			return err
		}
		d, err = delivery(tx, orgID, webhookID, `id = $3`, deliveryID)
		if errors.Is(err, db.ErrNoRows) {
			return errs.Missing("delivery", deliveryID)
		}
		if err == nil {
			err = s.retriable(tx, d)
		}
		if err == nil {
			d, err = s.again(tx, d)
		}
		if err != nil {
			return err
		}
		to := d.DestinationID
		tx.OnCommit(func() { s.Lanes.more(to) })
		return s.Audit(tx, "webhook.delivery-retry", deliveryID)
	})
	return d, err
}

// retriable refuses what cannot be sent again. The write to the receipt's row makes concurrent retries of one chain wait for each other.
func (s *Store) retriable(tx *db.Tx, d Delivery) error {
	if d.Status != Failed {
		return errs.New(errs.Conflict, "only a failed delivery can be retried; this one is %s", d.Status)
	}
	to, err := destination(tx, d.DestinationID)
	switch {
	case err != nil:
		return err
	case to == nil:
		return errs.New(errs.Conflict, "the destination of this delivery was deleted")
	case to.Config.Disabled:
		return errs.New(errs.Conflict, "the destination of this delivery is disabled")
	}
	n, err := tx.Exec(`UPDATE webhook_receipts SET size = size WHERE org_id = $1 AND webhook_id = $2 AND id = $3`,
		d.orgID, d.WebhookID, d.ReceiptID)
	if err == nil && n == 0 {
		return errs.New(errs.Conflict, "the receipt of this delivery is no longer kept")
	}
	return err
}

// again gives the chain's pending attempt, due now, or a new one. One that is being sent stays as it is.
func (s *Store) again(tx *db.Tx, failed Delivery) (Delivery, error) {
	now := s.Now()
	last, err := delivery(tx, failed.orgID, failed.WebhookID, `receipt_id = $3 AND destination_id = $4 ORDER BY retries DESC, id DESC LIMIT 1`,
		failed.ReceiptID, failed.DestinationID)
	if err != nil {
		return last, err
	}
	if last.Status == Pending {
		_, err := tx.Exec(`UPDATE webhook_queue SET ready = true, due_at = $4
			WHERE org_id = $1 AND webhook_id = $2 AND id = $3 AND NOT ready`,
			last.orgID, last.WebhookID, last.ID, stamp.Of(now))
		return last, err
	}
	next := Delivery{
		ID: id.At(id.Delivery, now), Date: stamp.Of(now), WebhookID: last.WebhookID, DestinationID: last.DestinationID,
		ReceiptID: last.ReceiptID, Status: Pending, Retries: last.Retries + 1, orgID: last.orgID, ready: true, due: stamp.Of(now),
	}
	rows, sums := db.NewBulk(deliveryKinds...), newTally(s.shard(ofAccept))
	addDelivery(rows, next)
	sums.total(next.orgID, next.WebhookID, 0, 1)
	return next, errors.Join(enqueue(tx, rows), sums.write(tx))
}
