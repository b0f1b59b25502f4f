package webhook

import (
	"context"
	"errors"
	"time"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/stamp"
)

const (
	// sweepRows is how much one transaction removes: little, so that ingest hardly waits for it.
	sweepRows = 500
	// sweepRounds bounds what is removed of one webhook before it is another's turn, and sweepFor one run.
	sweepRounds = 50
	sweepFor    = time.Minute
	// graveFor is how long a deleted webhook is remembered: an ingest transaction that began before the deletion has long ended then.
	graveFor = time.Hour
	// packAfter is how long ago a day must have ended to be packed: late counts are rare by then. What is not packed is dearer to read.
	packAfter = time.Hour
	// packDays bounds the days that one run packs, so that years of them are packed in the course of some runs.
	packDays = 500
)

// Retention removes receipts and deliveries that are older than they are to be kept, and those of deleted webhooks. Counters stay; those of
// past days are packed.
type Retention struct {
	Store *Store
	// Keep is for webhooks that have no setting of their own.
	Keep time.Duration

	// All days before packed are packed, or else those of organizations before packing. Another process looks for itself.
	packed  int64
	packing string
	// left says that a sweep has left something for the next one.
	left bool
}

// Run packs, forgets turns, and sweeps until nothing is left, so that retention keeps pace with whatever is taken in.
func (r *Retention) Run(ctx context.Context) error {
	err := errors.Join(r.pack(ctx), r.Store.forgetTurns(ctx))
	start := r.Store.Now()
	for r.left = true; r.left && r.Store.Now().Sub(start) < sweepFor; {
		r.left = false
		if fault := r.sweep(ctx); fault != nil {
			return errors.Join(err, fault)
		}
	}
	return err
}

// sweep goes over all webhooks. A receipt goes when it is old and nothing of it is pending; a delivery when it is old and done.
func (r *Retention) sweep(ctx context.Context) error {
	graves, err := db.Collect(r.Store.DB.Read(ctx), scanOwned, `SELECT org_id, webhook_id, deleted_at FROM webhook_graves`)
	if err != nil {
		return err
	}
	for _, g := range graves {
		if err := r.bury(ctx, g); err != nil {
			return err
		}
	}
	after := owned{}
	for {
		some, err := db.Collect(r.Store.DB.Read(ctx), scanOwned, `SELECT org_id, id, COALESCE(retention_seconds, -1) FROM webhooks
			WHERE (org_id, id) > ($1, $2) ORDER BY org_id, id LIMIT 100`, after.orgID, after.webhookID)
		if err != nil || len(some) == 0 {
			return err
		}
		for _, w := range some {
			if err := r.trim(ctx, w); err != nil {
				return err
			}
			after = w
		}
	}
}

// pack packs the days of all organizations that ended some time ago, each in a transaction of its own, and then rests until the next day
// has. What was counted late for a day that is packed already waits until then as well.
func (r *Retention) pack(ctx context.Context) error {
	before := bucketOf(stamp.Of(r.Store.Now().Add(-packAfter)), aDay)
	for n := 0; n < packDays && r.packed != before; {
		day, err := r.Store.unpacked(ctx, r.packing, before)
		switch {
		case err != nil:
			return err
		case day >= 0:
			if err := r.Store.Pack(ctx, r.packing, day); err != nil {
				return err
			}
			n++
			continue
		}
		r.packing, err = r.Store.counted(ctx, r.packing)
		if errors.Is(err, db.ErrNoRows) {
			r.packed, err = before, nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// owned is a webhook with a number that belongs to it: the time of its deletion, or its retention.
type owned struct {
	orgID, webhookID string
	n                int64
}

func scanOwned(row db.Row) (o owned, err error) { return o, row.Scan(&o.orgID, &o.webhookID, &o.n) }

// trim removes what is too old of one webhook.
func (r *Retention) trim(ctx context.Context, w owned) error {
	keep := r.Keep
	if w.n >= 0 {
		keep = time.Duration(w.n) * time.Second
	}
	before := stamp.Of(r.Store.Now()).Add(-keep)
	old := keysOf(w.webhookID, nil, &before)
	if _, err := r.batches(ctx, w, deliveryRows, doneOnly, old); err != nil {
		return err
	}
	_, err := r.batches(ctx, w, receiptRows, settledOnly, old)
	return err
}

// bury removes all of a deleted webhook, and at last its grave: without that nobody would find what is left.
func (r *Retention) bury(ctx context.Context, w owned) error {
	for _, table := range []string{queueRows, deliveryRows, receiptRows} {
		if all, err := r.batches(ctx, w, table, "", keysOf(w.webhookID, nil, nil)); err != nil || !all {
			return err
		}
	}
	if stamp.Of(r.Store.Now()).Sub(stamp.Time(w.n)) < graveFor {
		return nil
	}
	return r.Store.DB.Write(ctx, func(tx *db.Tx) error {
		for _, table := range []string{"webhook_totals", "webhook_graves"} {
			if _, err := tx.Exec(`DELETE FROM `+table+` WHERE org_id = $1 AND webhook_id = $2`, w.orgID, w.webhookID); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	deliveryRows = "webhook_deliveries"
	receiptRows  = "webhook_receipts"
	queueRows    = "webhook_queue"

	doneOnly    = ` AND status <> 'pending'`
	settledOnly = ` AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d
		WHERE d.receipt_id = '` + id.Receipt + `_' || substr(webhook_receipts.key, 27) AND d.status = 'pending')`
)

// batches removes rows in small transactions, and takes them off the webhook's totals. Where there are none it only reads, and
// what must stay is passed over by reading, once, so that no transaction is longer for it. It tells whether these were all.
func (r *Retention) batches(ctx context.Context, w owned, table, only string, which keys) (all bool, err error) {
	some := `SELECT key FROM ` + table + ` WHERE key >= $1 AND key < $2` + only + ` ORDER BY key LIMIT $3`
	for range sweepRounds {
		first, err := db.Collect(r.Store.DB.Read(ctx), scanText, some, which.from, which.to, 1)
		if err != nil || len(first) == 0 {
			return err == nil, err
		}
		which.from = first[0]
		n, err := r.remove(ctx, w, table, `DELETE FROM `+table+` WHERE key IN (`+some+`)`+only, which)
		if err != nil || n < sweepRows {
			return err == nil, err
		}
	}
	r.left = true
	return false, nil
}

func (r *Retention) remove(ctx context.Context, w owned, table, text string, which keys) (n int64, err error) {
	err = r.Store.DB.Write(ctx, func(tx *db.Tx) error {
		if n, err = tx.Exec(text, which.from, which.to, sweepRows); err != nil || n == 0 {
			return err
		}
		sums := newTally(r.Store.shard(ofAccept))
		switch table {
		case receiptRows:
			sums.total(w.orgID, w.webhookID, -n, 0)
		case deliveryRows:
			sums.total(w.orgID, w.webhookID, 0, -n)
		}
		return sums.write(tx)
	})
	return n, err
}
