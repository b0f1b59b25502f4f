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
	"steward/internal/webhook/queue"
)

// Replay names a webhook's replay. Package replay owns replays.
type Replay struct{ OrgID, WebhookID, ID string }

// Redelivery is a receipt that a replay delivers to a destination.
type Redelivery struct {
	ReceiptKey    string
	DestinationID string
	Size          int64 // the receipt's headers and body, in bytes
}

// Redeliveries are a replay's deliveries. The first is due at Due, the others follow at intervals of
// Every.
type Redeliveries struct {
	Items []Redelivery
	Due   stamp.Time
	Every time.Duration
}

// Redeliver schedules a replay's deliveries. If an attempt for the same receipt and destination is
// already waiting for a retry, that one becomes due at the given time. Otherwise we queue a new one,
// which begins its own chain.
func (s *Store) Redeliver(tx *db.Tx, r Replay, all Redeliveries) error {
	now := s.Now()
	rows := make([]queue.Row, len(all.Items))
	woken := map[string]bool{}
	for i, item := range all.Items {
		if _, _, err := splitKey(item.ReceiptKey, id.Receipt); err != nil {
			return err
		}
		rows[i] = newAttempt(queue.Row{
			OrgID: r.OrgID, DestinationID: item.DestinationID, ReceiptKey: item.ReceiptKey, Size: item.Size, ReplayID: r.ID,
		}, now)
		rows[i].DueAt = all.Due.Add(time.Duration(i) * all.Every)
		woken[item.DestinationID] = true
	}
	added, err := withoutWaiting(tx, r.ID, rows)
	if err != nil {
		return err
	}
	sums := newTally()
	for _, d := range added {
		sums.scheduled(d)
	}
	if err := insertDeliveries(tx, added); err != nil {
		return err
	}
	tx.OnCommit(func() { s.Queue.Notify(slices.Collect(maps.Keys(woken))) })
	return sums.write(tx)
}

// waitingQuestion is waitingOf's input. The answer repeats Number.
type waitingQuestion struct {
	Number                   int
	ReceiptID, DestinationID string
}

// waitingOf finds an attempt that waits to deliver a receipt to a destination. The conditions and the
// order leave the planner only the receipt's index.
const waitingOf = `SELECT v.number, (SELECT d.key FROM webhook_deliveries d
		WHERE d.receipt_id = v.receipt_id AND d.destination_id || '' = v.destination_id AND d.status = 'pending' AND d.retries > 0
		ORDER BY d.key || '' DESC LIMIT 1)
	FROM {v}`

// withoutWaiting returns the deliveries that must be added. For the others an attempt already waits:
// it becomes due when the delivery would have been, and the replay counts its outcome. An attempt that
// ends in another transaction in the meantime no longer counts as waiting.
func withoutWaiting(tx *db.Tx, replayID string, all []queue.Row) (others []queue.Row, err error) {
	asked := make(db.Bulk[waitingQuestion], len(all))
	for i, d := range all {
		asked[i] = waitingQuestion{Number: i, ReceiptID: d.ReceiptID(), DestinationID: d.DestinationID}
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
	rows := make(db.Bulk[queue.Replayed], len(found))
	for i, w := range found {
		rows[i] = queue.Replayed{Key: *w.key, DueAt: all[w.number].DueAt, ReplayID: replayID}
	}
	changed, err := queue.MakeReplayedDue(tx, rows)
	if err != nil {
		return nil, err
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

// ReplayResult counts a replay's first attempts that have ended, along with the waiting ones that it
// made due.
type ReplayResult struct {
	Replay
	Done, Failed int64
}

// replayResults collects a transaction's counts, by replay.
type replayResults map[string]*ReplayResult

// add counts a result if it is for a replay's own first attempt.
func (p replayResults) add(r queue.Result) {
	if r.Row.ReplayID != "" && r.Row.Retries == 0 {
		p.count(r.Row.ReplayID, r)
	}
}

func (p replayResults) count(replayID string, r queue.Result) {
	if p[replayID] == nil {
		p[replayID] = &ReplayResult{Replay: Replay{r.Row.OrgID, r.Row.WebhookID(), replayID}}
	}
	p[replayID].Done++
	if statusOf(r) == Failed {
		p[replayID].Failed++
	}
}

// addWaiting counts results for waiting attempts that replays made due. Call it while they are still
// in the queue.
func (p replayResults) addWaiting(tx *db.Tx, results []queue.Result) error {
	retries := db.Bulk[string]{}
	byKey := map[string]queue.Result{}
	for _, r := range results {
		if r.Row.Retries > 0 {
			retries = append(retries, r.Row.Key)
			byKey[r.Row.Key] = r
		}
	}
	found, err := queue.ReplaysOf(tx, retries)
	if err != nil {
		return err
	}
	for _, c := range found {
		for _, replayID := range strings.Fields(c.IDs) {
			p.count(replayID, byKey[c.Key])
		}
	}
	return nil
}

// endReplayed reports the counts. It goes through replays in order, so that transactions cannot
// deadlock.
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
