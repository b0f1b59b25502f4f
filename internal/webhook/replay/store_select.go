package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/webhook"
)

// part is a part of a replay's deliveries.
type part struct {
	items []webhook.Redelivery // in receipt order
	end   string               // the last receipt that we looked at, by key
	more  bool
}

// part looks at a replay's receipts after a key, at most limit. It leaves out destinations that are
// gone or disabled.
func (s *Store) part(ctx context.Context, r Replay, after string, limit int) (part, error) {
	q := s.DB.Read(ctx)
	enabled, err := enabledDestinations(q, r)
	if err != nil {
		return part{}, err
	}
	p := part{end: after}
	if len(enabled) == 0 {
		return p, nil
	}
	var receipts []webhook.Redelivery
	_, before := webhook.ReceiptKeys(r.WebhookID, r.Since, r.Until)
	if r.Selected > 0 {
		receipts, p.more, err = selected(q, r, after, limit)
		if i := slices.IndexFunc(receipts, func(d webhook.Redelivery) bool { return d.ReceiptKey >= before }); i >= 0 {
			receipts = receipts[:i]
			p.more = false
		}
	} else {
		receipts, err = db.Collect(q, scanReceipt,
			`SELECT key, size + length(headers) FROM webhook_receipts WHERE key > $1 AND key < $2 ORDER BY key LIMIT $3`, after, before, limit)
		p.more = len(receipts) == limit
	}
	if err != nil {
		return p, fmt.Errorf("read receipts: %w", err)
	}
	went, err := lastDeliveries(q, r, receipts)
	if err != nil {
		return p, err
	}
	for _, receipt := range receipts {
		p.end = receipt.ReceiptKey
		p.items = append(p.items, r.redeliveries(receipt, went[receipt.ReceiptKey], enabled)...)
	}
	return p, nil
}

func scanReceipt(row db.Row) (d webhook.Redelivery, err error) {
	return d, row.Scan(&d.ReceiptKey, &d.Size)
}

// selected returns a replay's chosen receipts after a key, at most limit.
func selected(q db.Querier, r Replay, after string, limit int) (receipts []webhook.Redelivery, more bool, err error) {
	if r.ulids == nil {
		var text string
		if err := q.Row(`SELECT receipt_ids FROM webhook_replays WHERE org_id = $1 AND webhook_id = $2 AND id = $3`,
			r.orgID, r.WebhookID, r.ID).Scan(&text); err != nil {
			return nil, false, err
		}
		r.ulids = strings.Fields(text)
	}
	receipts, err = db.CollectBulk(q, r.keys(), scanReceipt,
		`SELECT r.key, r.size + length(r.headers) FROM {v} CROSS JOIN webhook_receipts r WHERE r.key = v.value`)
	if err != nil {
		return nil, false, err
	}
	slices.SortFunc(receipts, func(a, b webhook.Redelivery) int { return strings.Compare(a.ReceiptKey, b.ReceiptKey) })
	receipts = slices.DeleteFunc(receipts, func(d webhook.Redelivery) bool { return d.ReceiptKey <= after })
	more = len(receipts) > limit
	return receipts[:min(limit, len(receipts))], more, nil
}

// keys returns the chosen receipts' keys.
func (r Replay) keys() db.Bulk[string] {
	keys := make(db.Bulk[string], len(r.ulids))
	for i, one := range r.ulids {
		keys[i] = strings.TrimPrefix(r.WebhookID, id.Webhook+"_") + one
	}
	return keys
}

// firstKey sorts before the keys of a replay's receipts and after those of older ones.
func (r Replay) firstKey() string {
	first, _ := webhook.ReceiptKeys(r.WebhookID, r.Since, r.Until)
	return first[:len(first)-1]
}

// redeliveries returns a receipt's redeliveries. went lists the destinations it went to before,
// narrowed by the replay's filters.
func (r Replay) redeliveries(receipt webhook.Redelivery, went []string, enabled map[string]bool) (items []webhook.Redelivery) {
	to := went
	switch {
	case r.To == "":
	case len(went) > 0 || r.Status == "" && r.DestinationID == "":
		to = []string{r.To} // even a receipt that went nowhere
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

// enabledDestinations returns the destinations that a replay may send to.
func enabledDestinations(q db.Querier, r Replay) (map[string]bool, error) {
	ids, err := db.Collect(q, db.Value[string], `SELECT id FROM webhook_destinations WHERE org_id = $1 AND webhook_id = $2 AND NOT disabled`,
		r.orgID, r.WebhookID)
	if err != nil {
		return nil, fmt.Errorf("read destinations: %w", err)
	}
	only := r.target()
	enabled := map[string]bool{}
	for _, destinationID := range ids {
		if only == "" || only == destinationID {
			enabled[destinationID] = true
		}
	}
	return enabled, nil
}

// deliveriesOf joins receipts with their deliveries. On PostgreSQL we look them up receipt by receipt,
// and OFFSET keeps the planner from turning that into a join: before the table is analyzed it guesses
// 200 receipts, and would scan all deliveries.
var deliveriesOf = map[db.Dialect]string{
	db.SQLite: `JOIN webhook_deliveries d ON d.receipt_id = v.id`,
	db.Postgres: `CROSS JOIN LATERAL (SELECT key, destination_id, status, retries FROM webhook_deliveries
		WHERE receipt_id = v.id OFFSET 0) AS d`,
}

// receiptRow is lastDeliveriesText's input.
type receiptRow struct{ Key, ID string }

// lastDeliveriesText finds receipts' last delivery to each destination. It must not compare deliveries
// with each other, or SQLite would go through all later ones to the destination.
func lastDeliveriesText(dialect db.Dialect) string {
	return `SELECT receipt_key, destination_id, status, retries FROM (
		SELECT v.key AS receipt_key, d.destination_id, d.status, d.retries,
			row_number() OVER (PARTITION BY v.key, d.destination_id ORDER BY d.key DESC) AS place
		FROM {v} ` + deliveriesOf[dialect] + `) AS ranked
	WHERE place = 1 ORDER BY receipt_key, destination_id`
}

// lastDeliveries returns, by receipt key, the destinations whose last delivery matches the replay's
// filters.
func lastDeliveries(q db.Querier, r Replay, receipts []webhook.Redelivery) (map[string][]string, error) {
	if r.To != "" && r.Status == "" && r.DestinationID == "" {
		return nil, nil // all receipts are sent, wherever they went before
	}
	rows := make(db.Bulk[receiptRow], len(receipts))
	for i, receipt := range receipts {
		key := receipt.ReceiptKey
		rows[i] = receiptRow{Key: key, ID: id.Receipt + "_" + key[len(key)/2:]}
	}
	type last struct {
		receiptKey, destinationID string
		status                    webhook.Status
		retries                   int
	}
	found, err := db.CollectBulk(q, rows, func(row db.Row) (l last, err error) {
		return l, row.Scan(&l.receiptKey, &l.destinationID, &l.status, &l.retries)
	}, lastDeliveriesText(q.Dialect()))
	if err != nil {
		return nil, fmt.Errorf("read last deliveries: %w", err)
	}
	went := map[string][]string{}
	for _, l := range found {
		if r.isAbout(l.status, l.retries) && (r.DestinationID == "" || r.DestinationID == l.destinationID) {
			went[l.receiptKey] = append(went[l.receiptKey], l.destinationID)
		}
	}
	return went, nil
}

// isAbout reports whether a replay's status filter selects a last delivery with this status and
// number. One that waits for its retry counts as failed, since it has failed before.
func (r Replay) isAbout(status webhook.Status, retries int) bool {
	isWaiting := status == webhook.Pending && retries > 0
	switch r.Status {
	case "", status:
		return true
	case webhook.Waiting, webhook.Failed:
		return isWaiting
	}
	return false
}

// check returns NotFound if there is no such webhook, receipt or destination, and Conflict if the
// destination is disabled.
func (s *Store) check(ctx context.Context, r Replay) error {
	if _, err := s.Hooks.Get(ctx, r.orgID, r.WebhookID); err != nil {
		return err
	}
	if r.Selected > 0 {
		if err := s.checkSelected(ctx, r); err != nil {
			return err
		}
	}
	target := r.target()
	if target == "" {
		return nil
	}
	found, err := db.Collect(s.DB.Read(ctx), db.Value[bool],
		`SELECT disabled FROM webhook_destinations WHERE org_id = $1 AND webhook_id = $2 AND id = $3`, r.orgID, r.WebhookID, target)
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

// checkSelected returns NotFound if a chosen receipt does not exist.
func (s *Store) checkSelected(ctx context.Context, r Replay) error {
	receipts, _, err := selected(s.DB.Read(ctx), r, "", maxSelected)
	if err != nil {
		return fmt.Errorf("read receipts: %w", err)
	}
	for i, key := range r.keys() {
		if i == len(receipts) || receipts[i].ReceiptKey != key {
			return errs.Missing("receipt", id.Receipt+"_"+r.ulids[i])
		}
	}
	return nil
}

// target returns the only destination that a replay may send to, or "".
func (r Replay) target() string {
	if r.To != "" {
		return r.To
	}
	return r.DestinationID
}
