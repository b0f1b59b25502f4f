package webhook

import (
	"cmp"
	"maps"
	"slices"

	"steward/internal/db"
	"steward/internal/stamp"
)

// The lengths of buckets in seconds.
const (
	aMinute = 60
	anHour  = 3600
	aDay    = 86400
)

// units are written all three in the transaction of the rows that they count.
var units = []int64{aMinute, anHour, aDay}

// bucketOf gives the bucket of a time.
func bucketOf(at stamp.Time, unit int64) int64 { return int64(at) / (unit * 1_000_000) }

// tally sums up what a transaction changes in the counters, so that it touches each row once.
type tally struct {
	shard  int64
	counts map[countKey]*[3]int64
	totals map[hookKey]*[2]int64
}

type countKey struct {
	orgID        string
	unit, bucket int64
}

// hookKey is a webhook of an organization.
type hookKey struct{ orgID, webhookID string }

func newTally(shard int64) *tally {
	return &tally{shard: shard, counts: map[countKey]*[3]int64{}, totals: map[hookKey]*[2]int64{}}
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
	key := hookKey{orgID, webhookID}
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
	counts := db.NewBulk(db.Text, db.Int, db.Int, db.Int, db.Int, db.Int, db.Int)
	for _, k := range slices.SortedFunc(maps.Keys(t.counts), countKey.compare) {
		n := t.counts[k]
		counts.Add(k.orgID, k.unit, k.bucket, t.shard, n[0], n[1], n[2])
	}
	if err := counts.Send(tx, insertFrom("webhook_counts", "org_id, unit, bucket, shard, received, delivered, failed")+
		` WHERE true ON CONFLICT (org_id, unit, bucket, shard) DO UPDATE SET received = webhook_counts.received + excluded.received,
		delivered = webhook_counts.delivered + excluded.delivered, failed = webhook_counts.failed + excluded.failed`); err != nil {
		return err
	}
	totals := db.NewBulk(db.Text, db.Text, db.Int, db.Int, db.Int)
	for _, k := range slices.SortedFunc(maps.Keys(t.totals), hookKey.compare) {
		n := t.totals[k]
		totals.Add(k.orgID, k.webhookID, t.shard, n[0], n[1])
	}
	return totals.Send(tx, insertFrom("webhook_totals", "org_id, webhook_id, shard, receipts, deliveries")+
		` WHERE true ON CONFLICT (org_id, webhook_id, shard) DO UPDATE SET receipts = webhook_totals.receipts + excluded.receipts,
		deliveries = webhook_totals.deliveries + excluded.deliveries`)
}

func (k countKey) compare(o countKey) int {
	return cmp.Or(cmp.Compare(k.orgID, o.orgID), cmp.Compare(k.unit, o.unit), cmp.Compare(k.bucket, o.bucket))
}

func (k hookKey) compare(o hookKey) int {
	return cmp.Or(cmp.Compare(k.orgID, o.orgID), cmp.Compare(k.webhookID, o.webhookID))
}
