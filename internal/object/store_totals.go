package object

import (
	"context"
	"fmt"
	"maps"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
)

// totals counts how much buckets hold.
var totals = db.NewCounters("bucket_totals", []string{"org_id", "bucket_id", "tier"}, []string{"objects", "bytes"})

// usage adds up an organization's changes by day. It keeps zeros: a day on which everything was deleted
// again still has data.
var usage = db.NewCounters("object_usage", []string{"org_id", "day", "tier"}, []string{"objects", "bytes"}).KeepZeros()

// book adds to the bucket's totals and the day's usage.
func book(tx *db.Tx, now stamp.Time, b *Bucket, d tierSums) error {
	if err := totals.Add(tx, []any{b.OrgID, b.ID, string(d.tier)}, d.objects, d.bytes); err != nil {
		return err
	}
	return usage.Add(tx, []any{b.OrgID, dayOf(now.Std()), string(d.tier)}, d.objects, d.bytes)
}

// subtractTotals subtracts everything that a bucket holds and returns how many objects it has.
func subtractTotals(tx *db.Tx, b *Bucket, now stamp.Time) (objects int64, err error) {
	held, err := db.Collect(tx, scanTierSums, `SELECT tier, objects, bytes FROM bucket_totals WHERE org_id = $1 AND bucket_id = $2`,
		b.OrgID, b.ID)
	if err != nil {
		return 0, fmt.Errorf("read totals of bucket: %w", err)
	}
	for _, h := range held {
		if err := book(tx, now, b, tierSums{h.tier, h.negative()}); err != nil {
			return 0, err
		}
		objects += h.objects
	}
	return objects, nil
}

func scanTierSums(r db.Row) (t tierSums, err error) {
	return t, r.Scan(&t.tier, &t.objects, &t.bytes)
}

// Totals reads how much buckets hold now and held in recent days. Index and Buckets write it.
type Totals struct {
	DB  *db.DB
	Now func() time.Time
	// Prices are in USD for a GB (10^9 bytes) and month. Missing tiers get the default price.
	Prices map[Tier]float64
}

// Bucket returns a bucket's usage, or NotFound if it is gone.
func (s *Totals) Bucket(ctx context.Context, b *Bucket) (u Usage, err error) {
	err = s.DB.Snapshot(ctx, func(q db.Querier) error {
		err := q.Row(`SELECT last_event_at FROM bucket_states WHERE bucket_id = $1`, b.ID).Scan(&u.LastEventAt)
		if err := missingBucket(err, b); err != nil {
			return err
		}
		held, err := totals.Sum(q, b.OrgID, b.ID)
		if err != nil {
			return err
		}
		u.Objects = held[0]
		u.Bytes = held[1]
		return nil
	})
	return u, err
}

// All returns the usage of all organizations together.
func (s *Totals) All(ctx context.Context) (Usage, error) {
	held, err := totals.Sum(s.DB.Read(ctx))
	if err != nil {
		return Usage{}, err
	}
	return Usage{Objects: held[0], Bytes: held[1]}, nil
}

// ByBucket returns the usage of an organization's buckets, by bucket id.
func (s *Totals) ByBucket(ctx context.Context, orgID string) (byID map[string]Usage, err error) {
	byID = map[string]Usage{}
	err = s.DB.Snapshot(ctx, func(q db.Querier) error {
		all, err := usageOf(q, orgID)
		for _, b := range all {
			held := b.held.total()
			byID[b.id] = Usage{Objects: held.objects, Bytes: held.bytes, LastEventAt: b.lastEventAt}
		}
		return err
	})
	return byID, err
}

// usageOf returns an organization's buckets by name, with their holdings.
func usageOf(q db.Querier, orgID string) ([]bucketUsage, error) {
	all, err := db.Collect(q, func(r db.Row) (b bucketUsage, err error) {
		b.held = holding{}
		return b, r.Scan(&b.id, &b.name, &b.lastEventAt)
	}, `SELECT b.id, b.name, s.last_event_at FROM buckets b JOIN bucket_states s ON s.bucket_id = b.id
		WHERE b.org_id = $1 ORDER BY b.name`, orgID)
	if err != nil {
		return nil, fmt.Errorf("list buckets: %w", err)
	}
	held := map[string]holding{}
	for _, b := range all {
		held[b.id] = b.held
	}
	type total struct {
		bucketID string
		tier     Tier
		sums
	}
	rows, err := db.Collect(q, func(r db.Row) (t total, err error) {
		return t, r.Scan(&t.bucketID, &t.tier, &t.objects, &t.bytes)
	}, `SELECT bucket_id, tier, objects, bytes FROM bucket_totals WHERE org_id = $1`, orgID)
	if err != nil {
		return nil, fmt.Errorf("list totals: %w", err)
	}
	for _, t := range rows {
		if h := held[t.bucketID]; h != nil {
			h.add(t.tier, t.sums)
		}
	}
	return all, nil
}

// prices returns Prices with the defaults filled in.
func (s *Totals) prices() map[Tier]float64 {
	all := DefaultPrices()
	maps.Copy(all, s.Prices)
	return all
}

// Analytics returns how much an organization stores, now and in the last days.
func (s *Totals) Analytics(ctx context.Context, orgID string, days int) (Analytics, error) {
	today := dayOf(s.Now())
	h := history{from: today - int64(days) + 1, today: today}
	err := s.DB.Snapshot(ctx, func(q db.Querier) (err error) {
		if h.buckets, err = usageOf(q, orgID); err != nil {
			return err
		}
		if err := q.Row(`SELECT MIN(day) FROM object_usage WHERE org_id = $1`, orgID).Scan(&h.first); err != nil {
			return fmt.Errorf("find first day: %w", err)
		}
		h.changes, err = db.Collect(q, func(r db.Row) (c dayChange, err error) {
			return c, r.Scan(&c.day, &c.tier, &c.objects, &c.bytes)
		}, `SELECT day, tier, objects, bytes FROM object_usage WHERE org_id = $1 AND day >= $2`, orgID, h.from)
		if err != nil {
			return fmt.Errorf("list usage: %w", err)
		}
		return nil
	})
	if err != nil {
		return Analytics{}, err
	}
	a := h.analytics(s.prices())
	a.Priced = len(s.Prices) > 0
	return a, nil
}
