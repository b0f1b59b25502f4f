package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/stamp"
)

// Replay selects receipts of a webhook to be delivered again. Package replay owns its states.
type Replay struct {
	ID, OrgID, WebhookID string
	Since, Until         stamp.Time // since is inclusive, until is not
	// Status is that of the last delivery of a receipt to a destination, or empty.
	Status Status
	// DestinationID is where receipts went, or empty for all destinations.
	DestinationID string
	// To is where to send them, or empty for where they went.
	To string
}

// FirstKey sorts before the keys of all receipts of the window.
func (r Replay) FirstKey() string {
	from := keysOf(r.WebhookID, &r.Since, nil).from
	return from[:len(from)-1]
}

// Redelivery is a receipt that a replay delivers to a destination.
type Redelivery struct {
	ReceiptKey    string
	DestinationID string
	size          int64
}

// ReplayPage is a part of what a replay delivers.
type ReplayPage struct {
	Items []Redelivery // in the order of their receipts
	End   string       // key of the last receipt that was looked at
	More  bool
}

// ReplayPage looks at the receipts of a replay after a key, at most limit. Destinations that are
// gone or disabled get nothing.
func (s *Store) ReplayPage(ctx context.Context, r Replay, after string, limit int) (ReplayPage, error) {
	q := s.DB.Read(ctx)
	enabled, err := replayDestinations(q, r)
	if err != nil {
		return ReplayPage{}, err
	}
	page := ReplayPage{End: after}
	if len(enabled) == 0 {
		return page, nil
	}
	receipts, err := db.Collect(q, func(row db.Row) (d Redelivery, err error) {
		return d, row.Scan(&d.ReceiptKey, &d.size)
	}, `SELECT key, size + length(headers) FROM webhook_receipts WHERE key > $1 AND key < $2 ORDER BY key LIMIT $3`,
		after, keysOf(r.WebhookID, nil, &r.Until).to, limit)
	if err != nil {
		return page, fmt.Errorf("read receipts: %w", err)
	}
	went, err := lastDeliveries(q, r, receipts)
	if err != nil {
		return page, err
	}
	for _, receipt := range receipts {
		page.End = receipt.ReceiptKey
		page.Items = append(page.Items, r.redeliveries(receipt, went[receipt.ReceiptKey], enabled)...)
	}
	page.More = len(receipts) == limit
	return page, nil
}

// redeliveries returns where a receipt is sent again. went are the destinations that it was sent to,
// as far as the replay is about them.
func (r Replay) redeliveries(receipt Redelivery, went []string, enabled map[string]bool) (items []Redelivery) {
	to := went
	switch {
	case r.To == "":
	case len(went) > 0 || r.Status == "" && r.DestinationID == "":
		to = []string{r.To} // also what went nowhere
	default:
		to = nil
	}
	for _, destinationID := range to {
		if enabled[destinationID] {
			receipt.DestinationID = destinationID
			items = append(items, receipt)
		}
	}
	return items
}

// replayDestinations returns the destinations that a replay may send to.
func replayDestinations(q db.Querier, r Replay) (map[string]bool, error) {
	ids, err := db.Collect(q, scanText, `SELECT id FROM webhook_destinations WHERE org_id = $1 AND webhook_id = $2 AND NOT disabled`,
		r.OrgID, r.WebhookID)
	if err != nil {
		return nil, fmt.Errorf("read destinations: %w", err)
	}
	only := r.To
	if only == "" {
		only = r.DestinationID
	}
	enabled := map[string]bool{}
	for _, destinationID := range ids {
		if only == "" || only == destinationID {
			enabled[destinationID] = true
		}
	}
	return enabled, nil
}

// lastDeliveriesText finds the last delivery of receipts to each destination. It must not compare
// deliveries with each other: SQLite would go through all later ones of the destination.
const lastDeliveriesText = `SELECT receipt_key, destination_id, status FROM (
		SELECT v.column1 AS receipt_key, d.destination_id, d.status,
			row_number() OVER (PARTITION BY v.column1, d.destination_id ORDER BY d.key DESC) AS place
		FROM {v} JOIN webhook_deliveries d ON d.receipt_id = v.column2) AS ranked
	WHERE place = 1 ORDER BY receipt_key, destination_id`

// lastDeliveries returns the destinations of receipts, by key, whose last delivery matches a replay.
func lastDeliveries(q db.Querier, r Replay, receipts []Redelivery) (map[string][]string, error) {
	rows := db.NewBulk(db.Text, db.Text)
	for _, receipt := range receipts {
		rows.Add(receipt.ReceiptKey, id.Receipt+"_"+receipt.ReceiptKey[len(receipt.ReceiptKey)/2:])
	}
	type last struct {
		receiptKey, destinationID string
		status                    Status
	}
	found, err := db.CollectBulk(q, rows, func(row db.Row) (l last, err error) {
		return l, row.Scan(&l.receiptKey, &l.destinationID, &l.status)
	}, lastDeliveriesText)
	if err != nil {
		return nil, fmt.Errorf("read last deliveries: %w", err)
	}
	went := map[string][]string{}
	for _, l := range found {
		if (r.Status == "" || r.Status == l.status) && (r.DestinationID == "" || r.DestinationID == l.destinationID) {
			went[l.receiptKey] = append(went[l.receiptKey], l.destinationID)
		}
	}
	return went, nil
}

// CheckReplay returns NotFound if the webhook or a destination that a replay names does not exist, and
// Conflict if that is disabled.
func (s *Store) CheckReplay(q db.Querier, r Replay) error {
	if _, err := get(q, r.OrgID, r.WebhookID); err != nil {
		return err
	}
	target := r.To
	if target == "" {
		target = r.DestinationID
	}
	if target == "" {
		return nil
	}
	found, err := db.Collect(q, func(row db.Row) (disabled bool, err error) { return disabled, row.Scan(&disabled) },
		`SELECT disabled FROM webhook_destinations WHERE org_id = $1 AND webhook_id = $2 AND id = $3`, r.OrgID, r.WebhookID, target)
	switch {
	case err != nil:
		return fmt.Errorf("read destination: %w", err)
	case len(found) == 0:
		return errs.Missing("destination", target)
	case found[0]:
		return errs.New(errs.Conflict, "destination %s is disabled", target)
	}
	return nil
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
		d.size = item.size
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
	OrgID, WebhookID, ReplayID string
	Done, Failed               int64
}

// replayResults collects what a transaction counts, by replay.
type replayResults map[string]*ReplayResult

func (p replayResults) add(r Result) {
	d := r.Delivery
	if d.ReplayID == "" || d.Retries > 0 {
		return
	}
	if p[d.ReplayID] == nil {
		p[d.ReplayID] = &ReplayResult{OrgID: d.orgID, WebhookID: d.WebhookID, ReplayID: d.ReplayID}
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
