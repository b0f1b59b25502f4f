package webhook

import (
	"context"
	"errors"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/stamp"
)

const deliveryColumns = idOfDelivery + `, destination_id, receipt_id, date, status, retries, error, response`

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

// of gives the delivery, which is one of this webhook of the organization.
func (r *storedDelivery) of(orgID, webhookID string) Delivery {
	d := r.Delivery
	d.orgID, d.WebhookID, d.Retries, d.Response = orgID, webhookID, int(r.retries), (*Answer)(r.response)
	return d
}

// Deliveries gives a page of a webhook's deliveries, newest first, or NotFound.
func (s *Store) Deliveries(ctx context.Context, orgID, webhookID string, f Filter, p page.Paging) (result page.Page[Delivery], err error) {
	on, err := pageKeys(&p, id.Delivery, webhookID, f)
	if err != nil {
		return result, err
	}
	q := s.DB.Read(ctx)
	table, columns := deliveryRows, deliveryColumns
	if f.queued() {
		table, columns = queueRows, idOfDelivery+`, destination_id, '`+id.Receipt+`_' || substr(receipt_key, 27), date, 'pending', retries,
			NULL, NULL`
	}
	total, err := s.length(q, list{table, orgID, webhookID}, f)
	if err != nil {
		return result, err
	}
	var c clauses
	c.within(on)
	c.narrow(f)
	rows := make([]Delivery, 0, p.Room(total))
	for row, err := range db.Each(q, (*storedDelivery).columns, `SELECT `+columns+` FROM `+table+` WHERE `+c.page(p), c.args...) {
		if err != nil {
			return result, err
		}
		rows = append(rows, row.of(orgID, webhookID))
	}
	return page.New(rows, total, p, func(d Delivery) page.Cursor { return page.NewCursor(d.ID) }), nil
}

// delivery gives the first delivery of a webhook for which a condition holds, or ErrNoRows.
func delivery(q db.Querier, orgID, webhookID, where string, args ...any) (Delivery, error) {
	var row storedDelivery
	err := q.Row(`SELECT `+deliveryColumns+` FROM webhook_deliveries WHERE `+where, args...).Scan(row.columns()...)
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
		d, err = delivery(tx, orgID, webhookID, `key = $1`, rowKey(webhookID, deliveryID))
		if errors.Is(err, db.ErrNoRows) || err == nil && !id.Is(id.Delivery, deliveryID) {
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
	n, err := tx.Exec(`UPDATE webhook_receipts SET size = size WHERE key = $1`, rowKey(d.WebhookID, d.ReceiptID))
	if err == nil && n == 0 {
		return errs.New(errs.Conflict, "the receipt of this delivery is no longer kept")
	}
	return err
}

// again gives the chain's pending attempt, due now, or a new one. One that is being sent stays as it is.
func (s *Store) again(tx *db.Tx, failed Delivery) (Delivery, error) {
	now := s.Now()
	last, err := delivery(tx, failed.orgID, failed.WebhookID, `receipt_id = $1 AND destination_id = $2 ORDER BY retries DESC, key DESC LIMIT 1`,
		failed.ReceiptID, failed.DestinationID)
	if err != nil {
		return last, err
	}
	if last.Status == Pending {
		_, err := tx.Exec(`UPDATE webhook_queue SET ready = true, due_at = $2 WHERE key = $1 AND NOT ready`, last.key(), stamp.Of(now))
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
