package object

import (
	"context"
	"fmt"
	"maps"

	"steward/internal/db"
	"steward/internal/stamp"
)

// Usage returns what a bucket holds, or NotFound if it is gone.
func (s *Store) Usage(ctx context.Context, b *Bucket) (u Usage, err error) {
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

// Held returns what the buckets of all organizations hold.
func (s *Store) Held(ctx context.Context) (u Usage, err error) {
	err = s.DB.Read(ctx).Row(`SELECT CAST(COALESCE(SUM(objects), 0) AS BIGINT), CAST(COALESCE(SUM(bytes), 0) AS BIGINT)
		FROM bucket_totals`).Scan(&u.Objects, &u.Bytes)
	if err != nil {
		return Usage{}, fmt.Errorf("sum totals: %w", err)
	}
	return u, nil
}

// bucketUsage is a bucket with what it holds.
type bucketUsage struct {
	id, name    string
	lastEventAt *stamp.Time
	held        holding
}

// UsageByBucket returns what the buckets of an organization hold, by their ids.
func (s *Store) UsageByBucket(ctx context.Context, orgID string) (byID map[string]Usage, err error) {
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

// usageOf returns the buckets of an organization by name, with what they hold.
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

type tierSums struct {
	tier Tier
	sums
}

func scanTierSums(r db.Row) (t tierSums, err error) {
	return t, r.Scan(&t.tier, &t.objects, &t.bytes)
}

// prices returns the prices with their defaults.
func (s *Store) prices() map[Tier]float64 {
	all := DefaultPrices()
	maps.Copy(all, s.Prices)
	return all
}

// Analytics returns what an organization stores, now and on the last days.
func (s *Store) Analytics(ctx context.Context, orgID string, days int) (a Analytics, err error) {
	var buckets []bucketUsage
	var changes []dayChange
	var first *int64
	today := dayOf(s.Now())
	from := today - int64(days) + 1
	err = s.DB.Snapshot(ctx, func(q db.Querier) error {
		if buckets, err = usageOf(q, orgID); err != nil {
			return err
		}
		if err := q.Row(`SELECT MIN(day) FROM object_usage WHERE org_id = $1`, orgID).Scan(&first); err != nil {
			return fmt.Errorf("find first day: %w", err)
		}
		changes, err = db.Collect(q, func(r db.Row) (c dayChange, err error) {
			return c, r.Scan(&c.day, &c.tier, &c.objects, &c.bytes)
		}, `SELECT day, tier, objects, bytes FROM object_usage WHERE org_id = $1 AND day >= $2`, orgID, from)
		if err != nil {
			return fmt.Errorf("list usage: %w", err)
		}
		return nil
	})
	if err != nil {
		return Analytics{}, err
	}
	return s.analyze(buckets, changes, first, from, today, days), nil
}

// analyze makes the answer of what was read. first is the first day with data, or nil.
func (s *Store) analyze(buckets []bucketUsage, changes []dayChange, first *int64, from, today int64, days int) Analytics {
	prices := s.prices()
	a := Analytics{Buckets: []BucketAnalytics{}, Daily: []DayAnalytics{}, Days: days}
	now := holding{}
	for _, b := range buckets {
		for tier, held := range b.held {
			now.add(tier, held)
		}
		all := b.held.total()
		a.Buckets = append(a.Buckets, BucketAnalytics{
			BucketName: b.name, ObjectCount: all.objects, TotalSize: all.bytes, LastEventAt: b.lastEventAt, MonthlyCost: b.held.cost(prices),
		})
	}
	a.Summary = now.summary(prices)
	if first != nil {
		a.Daily = daily(now, changes, max(from, *first), today, prices)
	}
	return a
}
