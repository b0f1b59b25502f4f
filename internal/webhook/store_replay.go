package webhook

import (
	"maps"
	"slices"
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

// Redeliver adds deliveries of a replay to the queue, each a chain of its own. The first is due at
// a time, and each after the one before it.
func (s *Store) Redeliver(tx *db.Tx, r Replay, items []Redelivery, due stamp.Time, every time.Duration) error {
	now := s.Now()
	rows := newDeliveryRows()
	sums := newTally()
	woken := map[string]bool{}
	for _, item := range items {
		_, receiptID, err := splitKey(item.ReceiptKey, id.Receipt)
		if err != nil {
			return err
		}
		d := newDelivery(r.OrgID, r.WebhookID, item.DestinationID, receiptID, now)
		d.ReplayID = r.ID
		d.size = item.Size
		d.due = due
		due = due.Add(every)
		rows.add(d)
		sums.scheduled(d)
		woken[item.DestinationID] = true
	}
	if err := rows.insert(tx); err != nil {
		return err
	}
	tx.OnCommit(func() { s.wake(slices.Collect(maps.Keys(woken))) })
	return sums.write(tx)
}

// ReplayResult is how many first attempts of a replay have ended.
type ReplayResult struct {
	Replay
	Done, Failed int64
}

// replayResults collects what a transaction counts, by replay.
type replayResults map[string]*ReplayResult

func (p replayResults) add(r Result) {
	d := r.Delivery
	if d.ReplayID == "" || d.Retries > 0 {
		return
	}
	if p[d.ReplayID] == nil {
		p[d.ReplayID] = &ReplayResult{Replay: Replay{d.orgID, d.WebhookID, d.ReplayID}}
	}
	p[d.ReplayID].Done++
	if r.status() == Failed {
		p[d.ReplayID].Failed++
	}
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
