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

const deliveryColumns = `org_id, webhook_id, id, destination_id, receipt_id, date, status, retries, error, response`

func scanDelivery(row db.Row) (d Delivery, err error) {
	var response *string
	err = row.Scan(&d.orgID, &d.WebhookID, &d.ID, &d.DestinationID, &d.ReceiptID, &d.Date, &d.Status, &d.Retries, &d.Error, &response)
	d.Response = (*Answer)(response)
	return d, err
}

// Deliveries gives a page of a webhook's deliveries, newest first, or NotFound.
func (s *Store) Deliveries(ctx context.Context, orgID, webhookID string, f Filter, p web.Paging) (page web.Page[Delivery], err error) {
	before := afterAll
	if err := resume(&p, id.Delivery, &before); err != nil {
		return page, err
	}
	q := s.DB.Read(ctx)
	rows, state := deliveryRows, "status, retries, error, response"
	if f.queued() {
		rows, state = queueRows, "'pending', retries, NULL, NULL"
	}
	total, err := s.length(q, list{rows, id.Delivery, orgID, webhookID}, f)
	if err != nil {
		return page, err
	}
	var c clauses
	c.within(id.Delivery, orgID, webhookID, f)
	c.narrow(f)
	items, err := db.Collect(q, func(row db.Row) (Delivery, error) {
		d, response := Delivery{WebhookID: webhookID, orgID: orgID}, (*string)(nil)
		err := row.Scan(&d.ID, &d.DestinationID, &d.ReceiptID, &d.Date, &d.Status, &d.Retries, &d.Error, &response)
		d.Response = (*Answer)(response)
		return d, err
	}, `SELECT id, destination_id, receipt_id, date, `+state+` FROM `+rows+` WHERE `+c.page(before, p), c.args...)
	return web.NewPage(items, total, p, func(d Delivery) web.Cursor { return web.NewCursor(d.ID) }), err
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
		c.add(" AND status = $%d", string(f.Status))
	}
	if f.DestinationID != "" {
		c.add(" AND destination_id = $%d", f.DestinationID)
	}
	if f.ReceiptID != "" {
		c.add(" AND receipt_id = $%d", f.ReceiptID)
	}
}

// Retry makes the waiting attempt of a failed delivery's chain due now, or adds one, and gives it. NotFound; Conflict when the delivery is
// not failed, its destination is gone or disabled, or its receipt is no longer kept.
func (s *Store) Retry(ctx context.Context, orgID, webhookID, deliveryID string) (d Delivery, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := get(tx, orgID, webhookID); err != nil {
			return err
		}
		d, err = scanDelivery(tx.Row(`SELECT `+deliveryColumns+` FROM webhook_deliveries WHERE org_id = $1 AND webhook_id = $2 AND id = $3`,
			orgID, webhookID, deliveryID))
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
	last, err := scanDelivery(tx.Row(`SELECT `+deliveryColumns+` FROM webhook_deliveries
		WHERE org_id = $1 AND webhook_id = $2 AND receipt_id = $3 AND destination_id = $4 ORDER BY retries DESC, id DESC LIMIT 1`,
		failed.orgID, failed.WebhookID, failed.ReceiptID, failed.DestinationID))
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
