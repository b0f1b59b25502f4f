package webhook

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"steward/internal/db"
	"steward/internal/stamp"
	"steward/internal/webhook/eventlog"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/send"
)

// Finish writes in one transaction how attempts ended: success, or failed with the next attempt, and
// the counters. It returns the results that it counted, and separately those whose delivery another
// transaction has locked: it does not wait for them. It drops results for destinations whose lease
// this process has lost, and for deliveries that have already ended.
func (s *Store) Finish(ctx context.Context, results []queue.Result) (counted, locked []queue.Result, err error) {
	// We sort because rows with neighbouring keys share pages, and drop duplicates: a delivery can end
	// twice here if we lost its lease and took it again.
	results = slices.Clone(results)
	slices.SortStableFunc(results, func(a, b queue.Result) int { return cmp.Compare(a.Row.Key, b.Row.Key) })
	results = slices.CompactFunc(results, func(a, b queue.Result) bool { return a.Row.Key == b.Row.Key })
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		held, err := s.leasesOf(tx, results)
		if err != nil {
			return err
		}
		counted = slices.DeleteFunc(slices.Clone(results), func(r queue.Result) bool { return !held[r.Row.DestinationID] })
		if counted, locked, err = withoutLocked(tx, counted); err != nil {
			return err
		}
		if counted, err = endDeliveries(tx, counted); err != nil {
			return err
		}
		if err := endFailing(tx, counted); err != nil {
			return err
		}
		return s.follow(tx, counted)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("finish deliveries: %w", err)
	}
	return counted, locked, nil
}

// withoutLocked locks the results' pending deliveries. It separates those that another transaction has
// locked, such as a frozen replica's, and drops results whose delivery is no longer pending.
func withoutLocked(tx *db.Tx, results []queue.Result) (free, locked []queue.Result, err error) {
	if tx.Dialect() == db.SQLite { // SQLite has one writer
		return results, nil, nil
	}
	const pending = `SELECT d.key FROM webhook_deliveries d JOIN webhook_queue q ON q.key = d.key
		WHERE d.key {IN v} AND CASE WHEN d.status = 'pending' THEN 1 END = 1`
	free, rest, err := split(tx, results, pending+db.SkipLocked(tx.Dialect()))
	if err != nil || len(rest) == 0 {
		return free, nil, err
	}
	locked, _, err = split(tx, rest, pending)
	return free, locked, err
}

// split separates the results whose keys a statement returns from the others.
func split(tx *db.Tx, results []queue.Result, text string) (found, others []queue.Result, err error) {
	keys := make(db.Bulk[string], len(results))
	for i, r := range results {
		keys[i] = r.Row.Key
	}
	rows, err := db.CollectBulk(tx, keys, db.Value[string], text)
	if err != nil {
		return nil, nil, fmt.Errorf("lock deliveries: %w", err)
	}
	isFound := make(map[string]bool, len(rows))
	for _, key := range rows {
		isFound[key] = true
	}
	for _, r := range results {
		if isFound[r.Row.Key] {
			found = append(found, r)
		} else {
			others = append(others, r)
		}
	}
	return found, others, nil
}

// leasesOf returns the results' destinations that are leased to this process.
func (s *Store) leasesOf(tx *db.Tx, results []queue.Result) (map[string]bool, error) {
	asked := map[string]bool{}
	var destinationIDs []string
	for _, r := range results {
		if to := r.Row.DestinationID; !asked[to] {
			asked[to] = true
			destinationIDs = append(destinationIDs, to)
		}
	}
	return s.Queue.Held(tx, destinationIDs)
}

type endedRow struct {
	Key             string
	Status          Status
	FinishedAt      stamp.Time
	Error, Response *string
}

// endPending writes how attempts ended. The CASE hides its condition from PostgreSQL's statistics. If
// they were taken at a quiet time, they say that no delivery is pending, and PostgreSQL would read all
// deliveries and compare each pending one with every value.
const endPending = `UPDATE webhook_deliveries SET status = v.status, failed = (v.status = 'failed'),
	failing = (v.status = 'failed'), finished_at = v.finished_at, error = v.error, response = v.response
	{FROM v} WHERE key = v.key AND CASE WHEN webhook_deliveries.status = 'pending' THEN 1 END = 1`

// endDeliveries writes the deliveries' states and returns the results whose delivery was pending.
func endDeliveries(tx *db.Tx, results []queue.Result) ([]queue.Result, error) {
	ended := make(db.Bulk[endedRow], len(results))
	for i, r := range results {
		ended[i] = endedRow{
			Key: r.Row.Key, Status: statusOf(r), FinishedAt: r.At,
			Error: db.Null(send.CleanText(r.Error)), Response: db.Null(r.Response),
		}
	}
	rows, err := ended.Changed(tx, endPending)
	if err != nil {
		return nil, fmt.Errorf("end deliveries: %w", err)
	}
	counted := make([]queue.Result, len(rows))
	for i, row := range rows {
		counted[i] = results[row]
	}
	return counted, nil
}

// failingBefore finds the failing attempts that precede another one for the same receipt and
// destination. Within a chain we order them by number, since replicas' clocks differ. The conditions
// leave the planner only the receipt's index.
const failingBefore = `SELECT (SELECT string_agg(d.key, ' ') FROM webhook_deliveries d
		WHERE d.receipt_id = v.receipt_id AND d.destination_id || '' = v.destination_id AND CASE WHEN d.failing THEN 1 END = 1
		AND CASE WHEN d.replay_id = v.replay_id THEN d.retries < v.retries ELSE d.key < v.key END)
	FROM {v}`

// attempt is failingBefore's input.
type attempt struct {
	Key, ReceiptID, DestinationID, ReplayID string
	Retries                                 int
}

// endFailing marks the attempts before those that have just ended as superseded. A receipt's first
// attempt has none before it.
func endFailing(tx *db.Tx, results []queue.Result) error {
	var ended db.Bulk[attempt]
	for _, r := range results {
		if d := r.Row; d.Retries > 0 || d.ReplayID != "" {
			ended = append(ended, attempt{d.Key, d.ReceiptID(), d.DestinationID, d.ReplayID, d.Retries})
		}
	}
	found, err := db.CollectBulk(tx, ended, db.Value[*string], failingBefore)
	if err != nil {
		return fmt.Errorf("find attempts before: %w", err)
	}
	var before db.Bulk[string]
	for _, keys := range found {
		if keys != nil {
			before = append(before, strings.Fields(*keys)...)
		}
	}
	if err := before.Send(tx, `UPDATE webhook_deliveries SET failing = false WHERE key {IN v}`); err != nil {
		return fmt.Errorf("end failing deliveries: %w", err)
	}
	return nil
}

// follow writes everything that an ended delivery entails: it leaves the queue, a destination that is
// gone is disabled, the next attempt is added, and we note the destination's health and count it all.
func (s *Store) follow(tx *db.Tx, results []queue.Result) error {
	done := db.Bulk[string]{}
	log := eventLog{}
	replays := replayResults{}
	retries := db.Bulk[queue.Row]{}
	sums := newTally()
	enabled := map[string]bool{}
	for _, r := range results {
		done = append(done, r.Row.Key)
		log.add(r.Row.OrgID, r.Row.Key)
		sums.ended(r)
		replays.add(r)
		if r.Gone {
			if err := s.disableGone(tx, r.Row.DestinationID); err != nil {
				return err
			}
			enabled[r.Row.DestinationID] = false
		}
	}
	for _, r := range results {
		next, ok := retryOf(r)
		if !ok {
			continue
		}
		on, known := enabled[next.DestinationID]
		if !known {
			exists, disabled, err := destinationState(tx, next.DestinationID)
			if err != nil {
				return err
			}
			on = exists && !disabled
			enabled[next.DestinationID] = on
		}
		if on {
			retries = append(retries, next)
			sums.scheduled(next)
		}
	}
	if err := replays.addWaiting(tx, results); err != nil {
		return err
	}
	if err := queue.Remove(tx, done); err != nil {
		return err
	}
	if err := insertDeliveries(tx, retries); err != nil {
		return err
	}
	if err := s.endReplayed(tx, replays); err != nil {
		return err
	}
	if err := s.logEvents(tx, eventlog.Delivery, stamp.Of(s.Now()), log); err != nil {
		return err
	}
	if err := writeHealth(tx, results); err != nil {
		return err
	}
	return sums.write(tx)
}
