package webhook

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/stamp"
	"steward/internal/webhook/queue"
)

// Retry makes the waiting attempt in a failed delivery's chain due now, or adds one, and returns it.
// It returns NotFound, or Conflict if the delivery has not failed, its destination is gone or
// disabled, or we no longer keep its receipt.
func (s *Store) Retry(ctx context.Context, orgID, webhookID, deliveryID string) (next Delivery, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := get(tx, orgID, webhookID); err != nil {
			return err
		}
		failed, err := s.failedDelivery(tx, orgID, webhookID, deliveryID)
		if err != nil {
			return err
		}
		size, err := lockReceipt(tx, failed)
		if err != nil {
			return err
		}
		if next, err = s.retry(tx, failed, size); err != nil {
			return err
		}
		tx.OnCommit(func() { s.Queue.Notify([]string{next.DestinationID}) })
		return s.Audit.Record(tx, "webhook.delivery-retry", deliveryID)
	})
	return next, err
}

// findDelivery returns a webhook's first delivery that matches where, or ErrNoRows.
func findDelivery(q db.Querier, hook hookKey, where string, args ...any) (Delivery, error) {
	return scanDelivery(q.Row(`SELECT `+deliveryColumns+` FROM webhook_deliveries WHERE `+where, args...), hook)
}

// failedDelivery returns a delivery that can be retried.
func (s *Store) failedDelivery(tx *db.Tx, orgID, webhookID, deliveryID string) (Delivery, error) {
	d, err := findDelivery(tx, hookKey{orgID, webhookID}, `key = $1`, rowKey(webhookID, deliveryID))
	if errors.Is(err, db.ErrNoRows) || err == nil && !id.Is(id.Delivery, deliveryID) {
		return d, errs.Missing("delivery", deliveryID)
	}
	if err != nil {
		return d, fmt.Errorf("read delivery: %w", err)
	}
	if d.Status != Failed {
		return d, errs.New(errs.Conflict, "only failed deliveries can be retried; this one is %s", d.Status)
	}
	exists, disabled, err := destinationState(tx, d.DestinationID)
	switch {
	case err != nil:
		return d, err
	case !exists:
		return d, errs.New(errs.Conflict, "the destination of this delivery was deleted")
	case disabled:
		return d, errs.New(errs.Conflict, "the destination of this delivery is disabled")
	}
	return d, nil
}

// lockReceipt locks a delivery's receipt, so that concurrent retries wait for each other, and returns
// the size of its headers and body.
func lockReceipt(tx *db.Tx, d Delivery) (size int64, err error) {
	err = tx.Row(`UPDATE webhook_receipts SET size = size WHERE key = $1 RETURNING size + length(headers)`,
		rowKey(d.WebhookID, d.ReceiptID)).Scan(&size)
	if errors.Is(err, db.ErrNoRows) {
		return 0, errs.New(errs.Conflict, "the receipt of this delivery is no longer kept")
	}
	if err != nil {
		return 0, fmt.Errorf("lock receipt: %w", err)
	}
	return size, nil
}

// retry makes the pending attempt that follows a failed one due now, or adds one. An attempt that is
// already due stays as it is.
func (s *Store) retry(tx *db.Tx, failed Delivery, size int64) (Delivery, error) {
	last, err := findDelivery(tx, hookKey{failed.orgID, failed.WebhookID},
		`receipt_id = $1 AND destination_id = $2 AND replay_id = $3 ORDER BY retries DESC, key DESC LIMIT 1`,
		failed.ReceiptID, failed.DestinationID, failed.ReplayID)
	if err != nil {
		return last, fmt.Errorf("read last attempt: %w", err)
	}
	now := s.Now()
	if last.Status == Pending {
		return makeDue(tx, last, stamp.Of(now))
	}
	if err := countRetried(tx, last); err != nil {
		return last, err
	}
	next := newAttempt(queue.Row{
		OrgID: last.orgID, DestinationID: last.DestinationID, ReceiptKey: rowKey(last.WebhookID, last.ReceiptID),
		Retries: last.Retries + 1, Size: size, ReplayID: last.ReplayID,
	}, now)
	if err := insertDeliveries(tx, db.Bulk[queue.Row]{next}); err != nil {
		return last, err
	}
	sums := newTally()
	sums.scheduled(next)
	return pendingDelivery(next), sums.write(tx)
}

// makeDue makes a pending delivery due now, unless it already is.
func makeDue(tx *db.Tx, d Delivery, now stamp.Time) (Delivery, error) {
	if d.DueAt != nil && *d.DueAt <= now {
		return d, nil
	}
	if err := queue.MakeDue(tx, d.key, now); err != nil {
		return d, err
	}
	d.DueAt = &now
	return d, nil
}
