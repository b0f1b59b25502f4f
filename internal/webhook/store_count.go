package webhook

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"steward/internal/db"
	"steward/internal/stamp"
)

// units are the lengths of buckets in seconds: minute, hour, day. All three are written in the transaction of the rows that they count.
var units = []int64{60, 3600, 86400}

// bucketOf gives the bucket of a time.
func bucketOf(at stamp.Time, unit int64) int64 { return int64(at) / (unit * 1_000_000) }

// tally sums up what a transaction changes in the counters, so that it touches each row once.
type tally struct {
	shard  int64
	counts map[countKey]*[3]int64
	totals map[totalKey]*[2]int64
}

type countKey struct {
	orgID        string
	unit, bucket int64
}

type totalKey struct{ orgID, webhookID string }

func newTally(shard int64) *tally {
	return &tally{shard: shard, counts: map[countKey]*[3]int64{}, totals: map[totalKey]*[2]int64{}}
}

func (t *tally) count(orgID string, at stamp.Time, which int) {
	for _, unit := range units {
		key := countKey{orgID, unit, bucketOf(at, unit)}
		if t.counts[key] == nil {
			t.counts[key] = &[3]int64{}
		}
		t.counts[key][which]++
	}
}

func (t *tally) total(orgID, webhookID string, receipts, deliveries int64) {
	key := totalKey{orgID, webhookID}
	if t.totals[key] == nil {
		t.totals[key] = &[2]int64{}
	}
	t.totals[key][0] += receipts
	t.totals[key][1] += deliveries
}

func (t *tally) received(orgID, webhookID string, at stamp.Time, deliveries int) {
	t.count(orgID, at, 0)
	t.total(orgID, webhookID, 1, int64(deliveries))
}

func (t *tally) finished(orgID string, at stamp.Time, ok bool) {
	if ok {
		t.count(orgID, at, 1)
	} else {
		t.count(orgID, at, 2)
	}
}

// write adds the sums to the counters, in one order everywhere, so that transactions do not lock each other out.
func (t *tally) write(tx *db.Tx) error {
	counts := newBulk("text", "bigint", "bigint", "bigint", "bigint", "bigint", "bigint")
	for _, k := range slices.SortedFunc(maps.Keys(t.counts), countKey.compare) {
		n := t.counts[k]
		counts.add(k.orgID, k.unit, k.bucket, t.shard, n[0], n[1], n[2])
	}
	if err := counts.exec(tx, insertFrom("webhook_counts", "org_id, unit, bucket, shard, received, delivered, failed"),
		` WHERE true ON CONFLICT (org_id, unit, bucket, shard) DO UPDATE SET received = webhook_counts.received + excluded.received,
		delivered = webhook_counts.delivered + excluded.delivered, failed = webhook_counts.failed + excluded.failed`); err != nil {
		return err
	}
	totals := newBulk("text", "text", "bigint", "bigint", "bigint")
	for _, k := range slices.SortedFunc(maps.Keys(t.totals), totalKey.compare) {
		n := t.totals[k]
		totals.add(k.orgID, k.webhookID, t.shard, n[0], n[1])
	}
	return totals.exec(tx, insertFrom("webhook_totals", "org_id, webhook_id, shard, receipts, deliveries"),
		` WHERE true ON CONFLICT (org_id, webhook_id, shard) DO UPDATE SET receipts = webhook_totals.receipts + excluded.receipts,
		deliveries = webhook_totals.deliveries + excluded.deliveries`)
}

func (k countKey) compare(o countKey) int {
	return cmp.Or(cmp.Compare(k.orgID, o.orgID), cmp.Compare(k.unit, o.unit), cmp.Compare(k.bucket, o.bucket))
}

func (k totalKey) compare(o totalKey) int {
	return cmp.Or(cmp.Compare(k.orgID, o.orgID), cmp.Compare(k.webhookID, o.webhookID))
}

// totals gives how many receipts and deliveries a webhook has.
func totals(q db.Querier, orgID, webhookID string) (receipts, deliveries int64, err error) {
	err = q.Row(`SELECT COALESCE(CAST(SUM(receipts) AS BIGINT), 0), COALESCE(CAST(SUM(deliveries) AS BIGINT), 0) FROM webhook_totals
		WHERE org_id = $1 AND webhook_id = $2`, orgID, webhookID).Scan(&receipts, &deliveries)
	return receipts, deliveries, err
}

// Counts gives the counts of an organization's buckets from one to before another; buckets with none are left out.
func (s *Store) Counts(ctx context.Context, orgID string, unit, from, to int64) (map[int64]Count, error) {
	type row struct {
		bucket int64
		Count
	}
	rows, err := db.Collect(s.DB.Read(ctx), func(r db.Row) (out row, err error) {
		return out, r.Scan(&out.bucket, &out.Received, &out.Delivered, &out.Failed)
	}, `SELECT bucket, received, delivered, failed FROM webhook_counts
		WHERE org_id = $1 AND unit = $2 AND bucket >= $3 AND bucket < $4`, orgID, unit, from, to)
	found := make(map[int64]Count, len(rows))
	for _, r := range rows {
		found[r.bucket] = found[r.bucket].plus(r.Count)
	}
	return found, err
}

// Sum adds up the counts of an organization's buckets from one to before another.
func (s *Store) Sum(ctx context.Context, orgID string, unit, from, to int64) (sum Summary, err error) {
	err = s.DB.Read(ctx).Row(`SELECT COALESCE(CAST(SUM(received) AS BIGINT), 0), COALESCE(CAST(SUM(delivered) AS BIGINT), 0),
		COALESCE(CAST(SUM(failed) AS BIGINT), 0) FROM webhook_counts WHERE org_id = $1 AND unit = $2 AND bucket >= $3 AND bucket < $4`,
		orgID, unit, from, to).Scan(&sum.Received, &sum.Delivered, &sum.Failed)
	return sum, err
}
