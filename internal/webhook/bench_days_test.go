package webhook

import (
	"context"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/stamp"
)

// BenchmarkDays is what it costs to pack a day of 1,440 minutes, and to read from packed days.
func BenchmarkDays(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		h := newHouse(b, dbtest.Open(b, dialect))
		today := bucketOf(stamp.Of(h.clock.now()), aDay)
		must(b, h.db.Write(b.Context(), func(tx *db.Tx) error { return countAll(tx, today-370, today) }))
		day := today - 370
		b.Run(dialect.String()+"/pack", func(b *testing.B) {
			b.ReportAllocs()
			before := cpuTime(b)
			for range b.N {
				must(b, h.store.Pack(b.Context(), "org_a", day))
				day = min(day+1, today)
			}
			b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
		for ; day < today-1; day++ {
			must(b, h.store.Pack(b.Context(), "org_a", day))
		}
		for name, asked := range map[string]Asked{
			"hours of a year":   {Start: "2025-11-15T08:30:00Z", Granularity: "hour"},
			"minutes of a week": {Start: "2026-11-08T20:00:00Z", Granularity: "minute"},
		} {
			b.Run(dialect.String()+"/"+name, func(b *testing.B) {
				answers(b, func(ctx context.Context) (any, error) { return h.http.Timeseries(ctx, &struct{ Asked }{asked}) })
			})
			b.Run(dialect.String()+"/sum of "+name, func(b *testing.B) {
				answers(b, func(ctx context.Context) (any, error) { return h.http.Analytics(ctx, &struct{ Asked }{asked}) })
			})
		}
	}
}

// countAll fills all buckets of all units, from one day to another.
func countAll(tx *db.Tx, first, last int64) error {
	for _, unit := range units {
		if _, err := tx.Exec(`WITH RECURSIVE b(bucket) AS (
			SELECT CAST($2 AS BIGINT) UNION ALL SELECT bucket + 1 FROM b WHERE bucket + 1 < CAST($3 AS BIGINT))
			INSERT INTO webhook_counts (org_id, unit, bucket, shard, received, delivered, failed)
			SELECT 'org_a', CAST($1 AS BIGINT), bucket, 0, bucket % 1000, bucket % 900, bucket % 100 FROM b`,
			unit, first*(aDay/unit), (last+1)*(aDay/unit)); err != nil {
			return err
		}
	}
	return nil
}
