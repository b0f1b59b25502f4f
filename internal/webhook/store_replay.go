package webhook

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/stamp"
)

// Replay names a replay of a webhook. Package replay owns replays.
type Replay struct{ OrgID, WebhookID, ID string }

// Redelivery is a receipt that a replay delivers to a destination.
type Redelivery struct {
	ReceiptKey    string
	DestinationID string
	Size          int64 // of the receipt's headers and body
}

// Redeliver schedules deliveries of a replay. The first is due at a time, and each after the one before
// it. If the destination has an attempt of the receipt that waits for a retry, that is due then; if not,
// one is added to the queue, which begins a chain of its own.
func (s *Store) Redeliver(tx *db.Tx, r Replay, items []Redelivery, due stamp.Time, every time.Duration) error {
	now := s.Now()
	all := make([]Delivery, len(items))
	woken := map[string]bool{}
	for i, item := range items {
		_, receiptID, err := splitKey(item.ReceiptKey, id.Receipt)
		if err != nil {
			return err
		}
		d := newDelivery(r.OrgID, r.WebhookID, item.DestinationID, receiptID, now)
		d.ReplayID = r.ID
		d.size = item.Size
		d.due = due.Add(time.Duration(i) * every)
		all[i] = d
		woken[item.DestinationID] = true
	}
	added, err := withoutWaiting(tx, r.ID, all)
	if err != nil {
		return err
	}
	rows := db.Bulk[deliveryRow]{}
	sums := newTally()
	for _, d := range added {
		rows = append(rows, d.row())
		sums.scheduled(d)
	}
	if err := insertDeliveries(tx, rows); err != nil {
		return err
	}
	tx.OnCommit(func() { s.wake(slices.Collect(maps.Keys(woken))) })
	return sums.write(tx)
}

// waitingQuestion asks waitingOf for a receipt and a destination. Number is returned with the answer.
type waitingQuestion struct {
	Number                   int
	ReceiptID, DestinationID string
}

// waitingOf finds a waiting attempt of a receipt to a destination. Its conditions and its order leave
// only the index of the receipt to choose.
const waitingOf = `SELECT v.number, (SELECT d.key FROM webhook_deliveries d
		WHERE d.receipt_id = v.receipt_id AND d.destination_id || '' = v.destination_id AND d.status = 'pending' AND d.retries > 0
		ORDER BY d.key || '' DESC LIMIT 1)
	FROM {v}`

// withoutWaiting makes the waiting attempts of deliveries due when these are, has a replay count how they
// end, and returns the other deliveries. An attempt that ends meanwhile, in another transaction, is not
// waiting any more.
func withoutWaiting(tx *db.Tx, replayID string, all []Delivery) (others []Delivery, err error) {
	asked := make(db.Bulk[waitingQuestion], len(all))
	for i, d := range all {
		asked[i] = waitingQuestion{Number: i, ReceiptID: d.ReceiptID, DestinationID: d.DestinationID}
	}
	type waiting struct {
		number int
		key    *string
	}
	found, err := db.CollectBulk(tx, asked, func(row db.Row) (w waiting, err error) {
		return w, row.Scan(&w.number, &w.key)
	}, waitingOf)
	if err != nil {
		return nil, fmt.Errorf("find waiting attempts: %w", err)
	}
	found = slices.DeleteFunc(found, func(w waiting) bool { return w.key == nil })
	slices.SortFunc(found, func(a, b waiting) int { return cmp.Compare(*a.key, *b.key) })
	type attempt struct {
		Key    string
		DueAt  stamp.Time
		Replay string
	}
	rows := make(db.Bulk[attempt], len(found))
	for i, w := range found {
		rows[i] = attempt{Key: *w.key, DueAt: all[w.number].due, Replay: " " + replayID}
	}
	changed, err := rows.Changed(tx, `UPDATE webhook_queue SET replays = replays || v.replay,
		due_at = CASE WHEN due_at > v.due_at THEN v.due_at ELSE due_at END {FROM v} WHERE key = v.key`)
	if err != nil {
		return nil, fmt.Errorf("make waiting attempts due: %w", err)
	}
	isWaiting := map[int]bool{}
	for _, row := range changed {
		isWaiting[found[row].number] = true
	}
	for i, d := range all {
		if !isWaiting[i] {
			others = append(others, d)
		}
	}
	return others, nil
}

// ReplayResult is how many first attempts of a replay have ended, with the waiting ones that it made due.
type ReplayResult struct {
	Replay
	Done, Failed int64
}

// replayResults collects what a transaction counts, by replay.
type replayResults map[string]*ReplayResult

// add counts the result of a replay's own first attempt.
func (p replayResults) add(r Result) {
	if r.Delivery.ReplayID != "" && r.Delivery.Retries == 0 {
		p.count(r.Delivery.ReplayID, r)
	}
}

func (p replayResults) count(replayID string, r Result) {
	if p[replayID] == nil {
		p[replayID] = &ReplayResult{Replay: Replay{r.Delivery.orgID, r.Delivery.WebhookID, replayID}}
	}
	p[replayID].Done++
	if r.status() == Failed {
		p[replayID].Failed++
	}
}

// addWaiting counts results of attempts that replays have made due, while they are in the queue.
func (p replayResults) addWaiting(tx *db.Tx, results []Result) error {
	retries := db.Bulk[string]{}
	byKey := map[string]Result{}
	for _, r := range results {
		if r.Delivery.Retries > 0 {
			retries = append(retries, r.Delivery.key)
			byKey[r.Delivery.key] = r
		}
	}
	type counted struct{ key, replays string }
	found, err := db.CollectBulk(tx, retries, func(row db.Row) (c counted, err error) {
		return c, row.Scan(&c.key, &c.replays)
	}, `SELECT q.key, q.replays FROM {v} JOIN webhook_queue q ON q.key = v.value WHERE q.replays <> ''`)
	if err != nil {
		return fmt.Errorf("find replays of attempts: %w", err)
	}
	for _, c := range found {
		for _, replayID := range strings.Fields(c.replays) {
			p.count(replayID, byKey[c.key])
		}
	}
	return nil
}

// endReplayed counts first attempts that have ended, in the order of replays.
func (s *Store) endReplayed(tx *db.Tx, results replayResults) error {
	if len(results) == 0 || s.Replayed == nil {
		return nil
	}
	var ended []ReplayResult
	for _, replayID := range slices.Sorted(maps.Keys(results)) {
		ended = append(ended, *results[replayID])
	}
	return s.Replayed(tx, ended)
}
