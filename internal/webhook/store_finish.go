package webhook

import (
	"context"
	"slices"

	"steward/internal/db"
)

// Finish writes how attempts ended: success, or failed and the chain's next one, with counters, in one transaction. A result
// changes nothing when the destination is no longer this process's turn, or the delivery has ended already. It gives the ids that it
// finished.
func (s *Store) Finish(ctx context.Context, results []Result) (finished []string, err error) {
	ended := db.NewBulk(db.Text, db.Text, db.Text, db.Text, db.Text, db.Text, db.Text, db.Int, db.Text, db.Text)
	byID := make(map[string]Result, len(results))
	for _, r := range results {
		d := r.Delivery
		// A delivery whose turn was lost and taken again by this same process may end twice at once: the first counts.
		if _, twice := byID[d.ID]; twice {
			continue
		}
		response, fault, status := (*string)(nil), (*string)(nil), Success
		if r.Error != "" {
			text := clean(r.Error)
			fault, status = &text, Failed
		}
		if r.Response != nil {
			text := r.Response.stored()
			response = &text
		}
		ended.Add(d.orgID, d.WebhookID, d.ID, d.DestinationID, d.ReceiptID, s.Owner, string(status), int64(r.At), fault, response)
		byID[d.ID] = r
	}
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := byIndex(tx); err != nil {
			return err
		}
		finished, err = db.CollectBulk(tx, ended, scanText, `UPDATE webhook_deliveries SET status = v.column7,
			failed = (v.column7 = 'failed'), finished_at = v.column8, error = v.column9, response = v.column10 FROM `,
			ours+` AND status = 'pending' AND EXISTS (
			SELECT 1 FROM webhook_turns t WHERE t.destination_id = v.column4 AND t.owner = v.column6) RETURNING id`)
		if err != nil {
			return err
		}
		return s.follow(tx, finished, byID)
	})
	return finished, err
}

// follow writes what comes after finished deliveries, which leave the queue: disabled destinations, next attempts, counters.
func (s *Store) follow(tx *db.Tx, finished []string, results map[string]Result) error {
	sums, rows := newTally(s.shard(ofFinish)), db.NewBulk(deliveryKinds...)
	slices.Sort(finished)
	done, enabled := db.NewBulk(db.Text, db.Text, db.Text), map[string]bool{}
	for _, deliveryID := range finished {
		r := results[deliveryID]
		done.Add(r.Delivery.orgID, r.Delivery.WebhookID, deliveryID)
		sums.finished(r.Delivery.orgID, r.At, r.Error == "")
		if r.Gone {
			if err := s.disableGone(tx, r.Delivery.DestinationID); err != nil {
				return err
			}
			enabled[r.Delivery.DestinationID] = false
		}
	}
	for _, deliveryID := range finished {
		next := results[deliveryID].next()
		if next == nil {
			continue
		}
		// A chain ends with its destination.
		on, known := enabled[next.DestinationID]
		if !known {
			to, err := destination(tx, next.DestinationID)
			if err != nil {
				return err
			}
			on = to != nil && !to.Config.Disabled
			enabled[next.DestinationID] = on
		}
		if on {
			addDelivery(rows, *next)
			sums.total(next.orgID, next.WebhookID, 0, 1)
		}
	}
	if err := done.Send(tx, `DELETE FROM webhook_queue WHERE (org_id, webhook_id, id) IN (
		SELECT v.column1, v.column2, v.column3 FROM `, `)`); err != nil {
		return err
	}
	if err := enqueue(tx, rows); err != nil {
		return err
	}
	return sums.write(tx)
}
