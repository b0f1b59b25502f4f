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
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := byIndex(tx); err != nil {
			return err
		}
		ours, err := s.ourTurns(tx, results)
		if err != nil {
			return err
		}
		counted = slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return !ours[r.Delivery.DestinationID] })
		ended := db.NewBulk(db.Text, db.Text, db.Int, db.Text, db.Text)
		for _, r := range counted {
			fault, status := (*string)(nil), Success
			if r.Error != "" {
				fault, status = new(clean(r.Error)), Failed
			}
			ended.Add(r.Delivery.key(), string(status), int64(r.At), fault, (*string)(r.Response))
		}
		rows, err := ended.Changed(tx, `UPDATE webhook_deliveries SET status = v.column2, failed = (v.column2 = 'failed'),
			finished_at = v.column3, error = v.column4, response = v.column5 {FROM v} WHERE key = v.column1 AND status = 'pending'`)
		if err != nil {
			return err
		}
		for i, row := range rows {
			counted[i] = counted[row]
		}
		counted = counted[:len(rows)]
		return s.follow(tx, counted)
	})
	return counted, err
}

// ourTurns tells which of the destinations of results are this process's turn.
func (s *Store) ourTurns(tx *db.Tx, results []Result) (ours map[string]bool, err error) {
	ours = map[string]bool{}
	asked := db.NewBulk(db.Text, db.Text)
	for _, r := range results {
		if to := r.Delivery.DestinationID; !ours[to] {
			ours[to] = true
			asked.Add(to, s.Owner)
		}
	}
	clear(ours)
	found, err := db.CollectBulk(tx, asked, scanText, `SELECT t.destination_id
		FROM {v} JOIN webhook_turns t ON t.destination_id = v.column1 AND t.owner = v.column2`)
	for _, to := range found {
		ours[to] = true
	}
	return ours, err
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
	if err := done.Send(tx, `DELETE FROM webhook_queue WHERE key {IN v}`); err != nil {
		return err
	}
	if err := enqueue(tx, rows); err != nil {
		return err
	}
	return sums.write(tx)
}
