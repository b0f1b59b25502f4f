package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/stamp"
	"steward/internal/webhook/eventlog"
)

// LogChanged is the topic on which replicas tell each other about new events in the log.
const LogChanged = "webhook.log"

// eventLog collects a transaction's events: their rows' keys, by organization.
type eventLog map[string][]string

func (l eventLog) add(orgID, key string) { l[orgID] = append(l[orgID], key) }

// logEvents writes events to the log, and tells readers after the commit.
func (s *Store) logEvents(tx *db.Tx, kind eventlog.Kind, at stamp.Time, events eventLog) error {
	orgIDs := slices.Sorted(maps.Keys(events))
	for _, orgID := range orgIDs {
		if err := eventlog.Append(tx, eventlog.Batch{OrgID: orgID, Kind: kind, At: at, Keys: events[orgID]}); err != nil {
			return err
		}
	}
	if len(orgIDs) == 0 {
		return nil
	}
	tx.OnCommit(func() {
		if s.Logged != nil {
			s.Logged(orgIDs)
		}
		s.DB.Notify(LogChanged)
	})
	return nil
}

type keyToLoad struct{ Key, OrgID, WebhookID string }

// keysToLoad lists the rows to read for events. The queries join it with webhooks, which hides the
// rows that a deleted webhook still has until they are swept.
func keysToLoad(orgID string, keys []string) db.Bulk[keyToLoad] {
	rows := make(db.Bulk[keyToLoad], len(keys))
	for i, key := range keys {
		rows[i] = keyToLoad{Key: key, OrgID: orgID, WebhookID: id.Webhook + "_" + key[:len(key)/2]}
	}
	return rows
}

// ReceiptsByKey returns receipts by their keys, in the form lists show. It leaves out those that are
// gone.
func (s *Store) ReceiptsByKey(ctx context.Context, orgID string, keys []string) (map[string]Receipt, error) {
	found := make(map[string]Receipt, len(keys))
	_, err := db.CollectBulk(s.DB.Read(ctx), keysToLoad(orgID, keys), func(row db.Row) (key string, err error) {
		var r Receipt
		if err := row.Scan(append([]any{&key, &r.WebhookID, &r.Filtered}, r.columns()...)...); err != nil {
			return "", err
		}
		s.openListed(&r)
		found[key] = r.withPayload()
		return key, nil
	}, `SELECT v.key, v.webhook_id, `+filteredColumn+receiptColumns+listedBody+` FROM {v} JOIN webhooks w ON w.org_id = v.org_id AND w.id = v.webhook_id
		JOIN webhook_receipts ON key = v.key`)
	if err != nil {
		return nil, fmt.Errorf("read receipts: %w", err)
	}
	return found, nil
}

// DeliveriesByKey returns deliveries by their keys. It leaves out those that are gone.
func (s *Store) DeliveriesByKey(ctx context.Context, orgID string, keys []string) (map[string]Delivery, error) {
	found := make(map[string]Delivery, len(keys))
	_, err := db.CollectBulk(s.DB.Read(ctx), keysToLoad(orgID, keys), func(row db.Row) (key string, err error) {
		d := Delivery{orgID: orgID}
		if err := row.Scan(append([]any{&key, &d.WebhookID}, d.columns()...)...); err != nil {
			return "", err
		}
		found[key] = d
		return key, nil
	}, `SELECT v.key, v.webhook_id, `+deliveryColumns+` FROM {v} JOIN webhooks w ON w.org_id = v.org_id AND w.id = v.webhook_id
		JOIN webhook_deliveries ON key = v.key`)
	if err != nil {
		return nil, fmt.Errorf("read deliveries: %w", err)
	}
	return found, nil
}
