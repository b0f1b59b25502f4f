package webhook

import (
	"context"
	"fmt"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/stats"
)

// totals counts each webhook's rows.
var totals = db.NewCounters("webhook_totals",
	[]string{"org_id", "webhook_id"}, []string{"receipts", "deliveries", "pending"})

// tally collects a transaction's counts.
type tally struct {
	events map[eventKey]stats.Count
	totals map[hookKey]total
}

// eventKey names a minute in a webhook's counts.
type eventKey struct {
	hook hookKey
	at   stamp.Time
}

// total counts a webhook's rows.
type total struct{ receipts, deliveries, pending int64 }

func newTally() *tally {
	return &tally{events: map[eventKey]stats.Count{}, totals: map[hookKey]total{}}
}

func (t *tally) event(orgID, webhookID string, at stamp.Time, n stats.Count) {
	const minute = stamp.Time(time.Minute / time.Microsecond)
	key := eventKey{hookKey{orgID, webhookID}, at - at%minute}
	sum := t.events[key]
	sum.Received += n.Received
	sum.Delivered += n.Delivered
	sum.Failed += n.Failed
	sum.Filtered += n.Filtered
	t.events[key] = sum
}

func (t *tally) total(orgID, webhookID string, n total) {
	key := hookKey{orgID, webhookID}
	sum := t.totals[key]
	sum.receipts += n.receipts
	sum.deliveries += n.deliveries
	sum.pending += n.pending
	t.totals[key] = sum
}

func (t *tally) received(r *Receipt, filtered int) {
	t.event(r.orgID, r.WebhookID, r.Date, stats.Count{Received: 1, Filtered: int64(filtered)})
	t.total(r.orgID, r.WebhookID, total{receipts: 1})
}

func (t *tally) scheduled(d queue.Row) {
	t.total(d.OrgID, d.WebhookID(), total{deliveries: 1, pending: 1})
}

func (t *tally) ended(r queue.Result) {
	n := stats.Count{Delivered: 1}
	if statusOf(r) == Failed {
		n = stats.Count{Failed: 1}
	}
	t.event(r.Row.OrgID, r.Row.WebhookID(), r.At, n)
	t.total(r.Row.OrgID, r.Row.WebhookID(), total{pending: -1})
}

// write adds the sums to the counters.
func (t *tally) write(tx *db.Tx) error {
	for key, n := range t.events {
		if err := stats.Add(tx, stats.Events{OrgID: key.hook.orgID, WebhookID: key.hook.webhookID, At: key.at, Count: n}); err != nil {
			return err
		}
	}
	for hook, n := range t.totals {
		if err := totals.Add(tx, []any{hook.orgID, hook.webhookID}, n.receipts, n.deliveries, n.pending); err != nil {
			return fmt.Errorf("count rows of webhook: %w", err)
		}
	}
	return nil
}

// totalOf counts a webhook's rows.
func (s *Store) totalOf(q db.Querier, orgID, webhookID string) (total, error) {
	sums, err := totals.Sum(q, orgID, webhookID)
	if err != nil {
		return total{}, err
	}
	return total{receipts: sums[0], deliveries: sums[1], pending: sums[2]}, nil
}

// QueueDepth counts the pending deliveries in all organizations.
func (s *Store) QueueDepth(ctx context.Context) (int64, error) {
	sums, err := totals.Sum(s.DB.Read(ctx))
	if err != nil {
		return 0, err
	}
	return sums[2], nil
}
