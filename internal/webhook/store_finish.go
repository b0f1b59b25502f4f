package webhook

import (
	"context"
	"slices"
	"strings"

	"steward/internal/db"
)

// Finish writes how attempts ended: success, or failed and the chain's next one, with counters, in one transaction. A result
// changes nothing when the destination is no longer this process's turn, or the delivery has ended already. It gives the results that
// counted.
func (s *Store) Finish(ctx context.Context, results []Result) (counted []Result, err error) {
	// In the order of their ids, they are next to each other in the database. A delivery whose turn was lost and taken again by this same
	// process may end twice at once: the first counts.
	results = slices.Clone(results)
	slices.SortStableFunc(results, func(a, b Result) int { return strings.Compare(a.Delivery.ID, b.Delivery.ID) })
	results = slices.CompactFunc(results, func(a, b Result) bool { return a.Delivery.ID == b.Delivery.ID })
	ended := db.NewBulk(db.Text, db.Text, db.Text, db.Text, db.Int, db.Text, db.Text)
	for _, r := range results {
		d := r.Delivery
		fault, status := (*string)(nil), Success
		if r.Error != "" {
			text := clean(r.Error)
			fault, status = &text, Failed
		}
		ended.Add(d.key(), d.DestinationID, s.Owner, string(status), int64(r.At), fault, (*string)(r.Response))
	}
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := byIndex(tx); err != nil {
			return err
		}
		rows, err := ended.Changed(tx, `UPDATE webhook_deliveries SET status = v.column4, failed = (v.column4 = 'failed'),
			finished_at = v.column5, error = v.column6, response = v.column7 {FROM v} WHERE key = v.column1 AND status = 'pending'
			AND EXISTS (SELECT 1 FROM webhook_turns t WHERE t.destination_id = v.column2 AND t.owner = v.column3)`)
		if err != nil {
			return err
		}
		counted = counted[:0]
		for _, row := range rows {
			counted = append(counted, results[row])
		}
		return s.follow(tx, counted)
	})
	return counted, err
}

// follow writes what comes after finished deliveries, which leave the queue: disabled destinations, next attempts, counters.
func (s *Store) follow(tx *db.Tx, counted []Result) error {
	sums, rows := newTally(s.shard(ofFinish)), db.NewBulk(deliveryKinds...)
	done, enabled := db.NewBulk(db.Text), map[string]bool{}
	for _, r := range counted {
		done.Add(r.Delivery.key())
		sums.finished(r.Delivery.orgID, r.At, r.Error == "")
		if r.Gone {
			if err := s.disableGone(tx, r.Delivery.DestinationID); err != nil {
				return err
			}
			enabled[r.Delivery.DestinationID] = false
		}
	}
	for _, r := range counted {
		next := r.next()
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
	if err := done.Send(tx, `DELETE FROM webhook_queue AS q {USING v} WHERE q.key = v.column1`); err != nil {
		return err
	}
	if err := enqueue(tx, rows); err != nil {
		return err
	}
	return sums.write(tx)
}
