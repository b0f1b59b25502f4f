package webhook

import (
	"context"
	"fmt"
	"time"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/stamp"
	"steward/internal/webhook/eventlog"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/stats"
)

const (
	// sweepRows bounds the rows that one transaction removes, so that ingest hardly waits for it.
	sweepRows = 500
	// sweepRounds bounds the transactions for one webhook before we sweep the next one, and sweepFor
	// bounds one run.
	sweepRounds = 50
	sweepFor    = time.Minute
	// tombstoneFor is how long we keep a tombstone: longer than any ingest transaction that began
	// before the webhook was deleted.
	tombstoneFor = time.Hour
)

// Retention removes receipts and deliveries after their retention, rejected requests after a day, expired
// dedupe keys, signing secrets that no longer sign, and everything a deleted webhook left. An organization's counters stay forever; a webhook's go with it.
type Retention struct {
	Store *Store
	// Keep is the retention for webhooks without their own.
	Keep time.Duration

	more bool // the last sweep left something
}

// Run removes expired leases, and sweeps until nothing is left or its time is up.
func (r *Retention) Run(ctx context.Context) error {
	if err := r.Store.Queue.PurgeLeases(ctx); err != nil {
		return err
	}
	began := r.Store.Now()
	for r.more = true; r.more && r.Store.Now().Sub(began) < sweepFor; {
		r.more = false
		if err := r.sweep(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sweep goes over all webhooks once.
func (r *Retention) sweep(ctx context.Context) error {
	deleted, err := db.Collect(r.Store.DB.Read(ctx), func(row db.Row) (w swept, err error) {
		return w, row.Scan(&w.orgID, &w.webhookID, &w.deletedAt)
	}, `SELECT org_id, webhook_id, deleted_at FROM webhook_tombstones`)
	if err != nil {
		return fmt.Errorf("list tombstones: %w", err)
	}
	for _, w := range deleted {
		if err := r.sweepDeleted(ctx, w); err != nil {
			return err
		}
	}
	after := swept{}
	for {
		some, err := db.Collect(r.Store.DB.Read(ctx), func(row db.Row) (w swept, err error) {
			return w, row.Scan(&w.orgID, &w.webhookID, &w.retentionSeconds)
		}, `SELECT org_id, id, retention_seconds FROM webhooks
			WHERE (org_id, id) > ($1, $2) ORDER BY org_id, id LIMIT 100`, after.orgID, after.webhookID)
		if err != nil {
			return fmt.Errorf("list webhooks: %w", err)
		}
		if len(some) == 0 {
			if err := r.sweepDedupe(ctx); err != nil {
				return err
			}
			if err := r.sweepSecrets(ctx); err != nil {
				return err
			}
			return r.sweepLog(ctx)
		}
		for _, w := range some {
			if err := r.sweepExpired(ctx, w); err != nil {
				return err
			}
			after = w
		}
	}
}

// swept is a webhook whose rows we remove.
type swept struct {
	orgID, webhookID string
	deletedAt        stamp.Time // if it was deleted
	retentionSeconds *int64     // its own retention, if it has one
}

const (
	endedOnly = ` AND status <> 'pending'`
	// unusedOnly keeps receipts that a pending delivery still needs.
	unusedOnly = ` AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d
		WHERE d.receipt_id = '` + id.Receipt + `_' || substr(webhook_receipts.key, 27) AND d.status = 'pending')`
	// orphansOnly keeps the rows of receipts that we keep.
	orphansOnly = ` AND NOT EXISTS (SELECT 1 FROM webhook_receipts r WHERE r.key = webhook_filtered.key)`
)

// sweepExpired removes deliveries and receipts beyond a webhook's retention, but neither pending
// deliveries nor the receipts they need.
func (r *Retention) sweepExpired(ctx context.Context, w swept) error {
	keep := r.Keep
	if w.retentionSeconds != nil {
		keep = time.Duration(*w.retentionSeconds) * time.Second
	}
	before := stamp.Of(r.Store.Now()).Add(-keep)
	old := keysOf(w.webhookID, nil, &before)
	if err := r.removeReplays(ctx, w, ` AND state <> 'running' AND created_at < $3`, before); err != nil {
		return err
	}
	if _, err := r.remove(ctx, w, deliveryTable, endedOnly, old); err != nil {
		return err
	}
	if _, err := r.remove(ctx, w, receiptTable, unusedOnly, old); err != nil {
		return err
	}
	if _, err := r.remove(ctx, w, filteredTable, orphansOnly, old); err != nil {
		return err
	}
	before = stamp.Of(r.Store.Now()).Add(-keepRejected)
	_, err := r.remove(ctx, w, rejectedTable, "", keysOf(w.webhookID, nil, &before))
	return err
}

// sweepLog removes events from the log once they are older than their organization's longest
// retention.
func (r *Retention) sweepLog(ctx context.Context) error {
	for after := ""; ; {
		orgIDs, err := eventlog.Organizations(r.Store.DB.Read(ctx), after)
		if err != nil || len(orgIDs) == 0 {
			return err
		}
		for _, orgID := range orgIDs {
			var longest int64
			if err := r.Store.DB.Read(ctx).Row(`SELECT COALESCE(MAX(retention_seconds), 0) FROM webhooks WHERE org_id = $1`,
				orgID).Scan(&longest); err != nil {
				return fmt.Errorf("read longest retention: %w", err)
			}
			keep := max(r.Keep, time.Duration(longest)*time.Second)
			all, err := eventlog.Purge(ctx, r.Store.DB, orgID, stamp.Of(r.Store.Now()).Add(-keep), sweepRounds)
			if err != nil {
				return err
			}
			r.more = r.more || !all
			after = orgID
		}
	}
}

// sweepDeleted removes everything a deleted webhook left, and finally its tombstone.
func (r *Retention) sweepDeleted(ctx context.Context, w swept) error {
	for _, table := range []string{queueTable, deliveryTable, receiptTable, filteredTable, rejectedTable, dedupeTable} {
		all, err := r.remove(ctx, w, table, "", keysOf(w.webhookID, nil, nil))
		if err != nil || !all {
			return err
		}
	}
	if err := r.removeReplays(ctx, w, ""); err != nil {
		return err
	}
	if stamp.Of(r.Store.Now()).Sub(w.deletedAt) < tombstoneFor {
		return nil
	}
	if all, err := r.removeCounts(ctx, w); err != nil || !all {
		return err
	}
	return r.Store.DB.Write(ctx, func(tx *db.Tx) error {
		for _, table := range []string{"webhook_totals", "webhook_tombstones"} {
			if _, err := tx.Exec(`DELETE FROM `+table+` WHERE org_id = $1 AND webhook_id = $2`, w.orgID, w.webhookID); err != nil {
				return fmt.Errorf("delete from %s: %w", table, err)
			}
		}
		return nil
	})
}

// removeReplays deletes a webhook's replays in one transaction, since there are few.
func (r *Retention) removeReplays(ctx context.Context, w swept, condition string, args ...any) error {
	where := ` FROM webhook_replays WHERE org_id = $1 AND webhook_id = $2` + condition
	args = append([]any{w.orgID, w.webhookID}, args...)
	found, err := db.Collect(r.Store.DB.Read(ctx), db.Value[string], `SELECT id`+where+` LIMIT 1`, args...)
	if err != nil {
		return fmt.Errorf("find replays: %w", err)
	}
	if len(found) == 0 {
		return nil
	}
	return r.Store.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := tx.Exec(`DELETE`+where, args...); err != nil {
			return fmt.Errorf("delete replays: %w", err)
		}
		return nil
	})
}

// removeCounts deletes a deleted webhook's counts in small transactions and reports whether none is
// left.
func (r *Retention) removeCounts(ctx context.Context, w swept) (all bool, err error) {
	for range sweepRounds {
		var n int64
		err := r.Store.DB.Write(ctx, func(tx *db.Tx) error {
			n, err = stats.Remove(tx, w.orgID, w.webhookID, sweepRows)
			return err
		})
		if err != nil {
			return false, err
		}
		if n < sweepRows {
			return true, nil
		}
	}
	r.more = true
	return false, nil
}

// remove deletes rows in small transactions and reports whether none is left. It reads before it
// writes: where there is nothing to delete we need no transaction, and we pass over rows that must
// stay once rather than in every batch. Rows that another transaction has locked wait for the next
// run.
func (r *Retention) remove(ctx context.Context, w swept, table, condition string, keys keyRange) (all bool, err error) {
	some := someKeys(table, condition)
	for range sweepRounds {
		first, err := db.Collect(r.Store.DB.Read(ctx), db.Value[string], some, keys.from, keys.to, 1)
		if err != nil {
			return false, fmt.Errorf("find rows of %s: %w", table, err)
		}
		if len(first) == 0 {
			return true, nil
		}
		keys.from = first[0]
		n, err := r.removeBatch(ctx, w, table, condition, keys)
		if err != nil {
			return false, err
		}
		if n == 0 {
			return false, nil
		}
	}
	r.more = true
	return false, nil
}

// someKeys selects the first keys in a range that meet a condition.
func someKeys(table, condition string) string {
	return `SELECT key FROM ` + table + ` WHERE key >= $1 AND key < $2` + condition + ` ORDER BY key LIMIT $3`
}

// removeBatch deletes rows and subtracts them from the webhook's totals.
func (r *Retention) removeBatch(ctx context.Context, w swept, table, condition string, keys keyRange) (n int64, err error) {
	err = r.Store.DB.Write(ctx, func(tx *db.Tx) error {
		sums := newTally()
		switch table {
		case queueTable:
			n, err = queue.RemoveRange(tx, queue.Range{From: keys.from, To: keys.to}, sweepRows)
			sums.total(w.orgID, w.webhookID, total{pending: -n})
		case deliveryTable:
			n, err = deleteRows(tx, table, condition, keys)
			sums.total(w.orgID, w.webhookID, total{deliveries: -n})
		case receiptTable:
			n, err = deleteRows(tx, table, condition, keys)
			sums.total(w.orgID, w.webhookID, total{receipts: -n})
		case filteredTable, rejectedTable, dedupeTable:
			n, err = deleteRows(tx, table, condition, keys)
		}
		if err != nil {
			return err
		}
		return sums.write(tx)
	})
	return n, err
}

// deleteRows deletes some rows in a range, skipping rows that another transaction has locked.
func deleteRows(tx *db.Tx, table, condition string, keys keyRange) (int64, error) {
	n, err := tx.Exec(`DELETE FROM `+table+` WHERE key IN (`+someKeys(table, condition)+db.SkipLocked(tx.Dialect())+`)`+condition,
		keys.from, keys.to, sweepRows)
	if err != nil {
		return 0, fmt.Errorf("delete from %s: %w", table, err)
	}
	return n, nil
}
