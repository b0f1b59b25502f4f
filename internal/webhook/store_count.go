package webhook

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	counts := db.NewBulk(db.Text, db.Int, db.Int, db.Int, db.Int, db.Int, db.Int)
	for _, k := range slices.SortedFunc(maps.Keys(t.counts), countKey.compare) {
		n := t.counts[k]
		counts.Add(k.orgID, k.unit, k.bucket, t.shard, n[0], n[1], n[2])
	}
	if err := counts.Send(tx, insertFrom("webhook_counts", "org_id, unit, bucket, shard, received, delivered, failed"),
		` WHERE true ON CONFLICT (org_id, unit, bucket, shard) DO UPDATE SET received = webhook_counts.received + excluded.received,
		delivered = webhook_counts.delivered + excluded.delivered, failed = webhook_counts.failed + excluded.failed`); err != nil {
		return err
	}
	totals := db.NewBulk(db.Text, db.Text, db.Int, db.Int, db.Int)
	for _, k := range slices.SortedFunc(maps.Keys(t.totals), totalKey.compare) {
		n := t.totals[k]
		totals.Add(k.orgID, k.webhookID, t.shard, n[0], n[1])
	}
	return totals.Send(tx, insertFrom("webhook_totals", "org_id, webhook_id, shard, receipts, deliveries"),
		` WHERE true ON CONFLICT (org_id, webhook_id, shard) DO UPDATE SET receipts = webhook_totals.receipts + excluded.receipts,
		deliveries = webhook_totals.deliveries + excluded.deliveries`)
}

func (k countKey) compare(o countKey) int {
	return cmp.Or(cmp.Compare(k.orgID, o.orgID), cmp.Compare(k.unit, o.unit), cmp.Compare(k.bucket, o.bucket))
}

func (k totalKey) compare(o totalKey) int {
	return cmp.Or(cmp.Compare(k.orgID, o.orgID), cmp.Compare(k.webhookID, o.webhookID))
}

// Counts gives the counts of an organization's buckets from one to before another. The database answers with a list for each column, all
// in the same order, as one row: row by row, a year of hours costs three times as much.
func (s *Store) Counts(ctx context.Context, orgID string, unit, from, to int64) ([]Count, error) {
	dialect, list := s.DB.Dialect(), `COALESCE(string_agg(int8send(%s), ''), '')`
	if dialect == db.SQLite {
		list = `COALESCE(group_concat(%s, ' '), '')`
	}
	var lists [4][]byte
	err := s.DB.Read(ctx).Row(fmt.Sprintf(`SELECT `+list+`, `+list+`, `+list+`, `+list+` FROM webhook_counts
		WHERE org_id = $1 AND unit = $2 AND bucket >= $3 AND bucket < $4`, "bucket - $3", "received", "delivered", "failed"),
		orgID, unit, from, to).Scan(&lists[0], &lists[1], &lists[2], &lists[3])
	places, received, delivered, failed := numbers(lists[0]), numbers(lists[1]), numbers(lists[2]), numbers(lists[3])
	counts := make([]Count, to-from)
	for len(places) > 0 { // a bucket comes once for each shard
		c := &counts[places.next(dialect)]
		*c = c.plus(Count{Received: received.next(dialect), Delivered: delivered.next(dialect), Failed: failed.next(dialect)})
	}
	return counts, err
}

// numbers is a list of numbers, none below zero: with a space between two on SQLite, of eight bytes each on PostgreSQL.
type numbers []byte

// next takes the first number off the list.
func (l *numbers) next(dialect db.Dialect) (n int64) {
	if dialect == db.Postgres {
		n = int64(binary.BigEndian.Uint64(*l))
		*l = (*l)[8:]
		return n
	}
	for i, c := range *l {
		if c == ' ' {
			*l = (*l)[i+1:]
			return n
		}
		n = n*10 + int64(c-'0')
	}
	*l = nil
	return n
}

// stretch is a run of buckets of one unit: from one to before another.
type stretch struct{ unit, from, to int64 }

// stretches covers a run of buckets by as few as there are: whole days where it has them, whole hours before and after, then minutes. Units
// are written together, so that they add up to the same.
func stretches(unit, from, to int64) (all []stretch) {
	for _, longer := range units {
		if longer <= unit {
			continue
		}
		n := longer / unit
		first, last := (from+n-1)/n, to/n
		if first >= last {
			break
		}
		all = append(all, stretch{unit, from, first * n}, stretch{unit, last * n, to})
		unit, from, to = longer, first, last
	}
	return append(all, stretch{unit, from, to})
}

// Sum adds up the counts of an organization's buckets from one to before another.
func (s *Store) Sum(ctx context.Context, orgID string, unit, from, to int64) (sum Summary, err error) {
	var parts []string
	args := []any{orgID}
	for _, st := range stretches(unit, from, to) {
		n := len(args)
		parts = append(parts, fmt.Sprintf(`SELECT received, delivered, failed FROM webhook_counts
			WHERE org_id = $1 AND unit = $%d AND bucket >= $%d AND bucket < $%d`, n+1, n+2, n+3))
		args = append(args, st.unit, st.from, st.to)
	}
	err = s.DB.Read(ctx).Row(`SELECT COALESCE(CAST(SUM(received) AS BIGINT), 0), COALESCE(CAST(SUM(delivered) AS BIGINT), 0),
		COALESCE(CAST(SUM(failed) AS BIGINT), 0) FROM (`+strings.Join(parts, " UNION ALL ")+`) x`, args...).
		Scan(&sum.Received, &sum.Delivered, &sum.Failed)
	return sum, err
}
