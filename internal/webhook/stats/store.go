package stats

import (
	"context"
	"fmt"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
)

// counts are the events of an organization in each unit of time.
var counts = db.NewCounters("webhook_counts",
	[]string{"org_id", "unit", "bucket"}, []string{"received", "delivered", "failed"})

// Add counts events of an organization at a time, as part of a transaction.
func Add(tx *db.Tx, orgID string, at stamp.Time, n Count) error {
	for _, unit := range units {
		key := []any{orgID, unit, bucketOf(at, unit)}
		if err := counts.Add(tx, key, n.Received, n.Delivered, n.Failed); err != nil {
			return fmt.Errorf("count webhook events: %w", err)
		}
	}
	return nil
}

// Store reads the counts.
type Store struct {
	DB  *db.DB
	Now func() time.Time
}

// Analytics returns the totals of an organization, in whole minutes.
func (s *Store) Analytics(ctx context.Context, orgID string, q Query) (Analytics, error) {
	span, err := q.Span(s.Now())
	if err != nil {
		return Analytics{}, err
	}
	minutes := span.buckets(minute)
	sum, err := s.sum(ctx, orgID, minutes)
	return Analytics{Period: span.period(minutes), Summary: sum}, err
}

// Timeseries returns the counts of an organization, in whole buckets.
func (s *Store) Timeseries(ctx context.Context, orgID string, q Query) (Timeseries, error) {
	span, err := q.Span(s.Now())
	if err != nil {
		return Timeseries{}, err
	}
	buckets := span.buckets(unitOf[q.Granularity])
	series, err := s.series(ctx, orgID, buckets)
	return Timeseries{Period: span.period(buckets), Series: series}, err
}

// sum returns the totals of the buckets of a range.
func (s *Store) sum(ctx context.Context, orgID string, r bucketRange) (Summary, error) {
	var parts []string
	args := []any{orgID}
	for _, part := range r.split() {
		n := len(args)
		parts = append(parts, fmt.Sprintf(`SELECT received, delivered, failed FROM webhook_counts
			WHERE org_id = $1 AND unit = $%d AND bucket >= $%d AND bucket < $%d`, n+1, n+2, n+3))
		args = append(args, part.unit, part.from, part.to)
	}
	text := `SELECT CAST(COALESCE(SUM(received), 0) AS BIGINT), CAST(COALESCE(SUM(delivered), 0) AS BIGINT),
		CAST(COALESCE(SUM(failed), 0) AS BIGINT) FROM (` + strings.Join(parts, " UNION ALL ") + `) AS counted`
	var sum Summary
	if err := s.DB.Read(ctx).Row(text, args...).Scan(&sum.Received, &sum.Delivered, &sum.Failed); err != nil {
		return Summary{}, fmt.Errorf("sum webhook counts: %w", err)
	}
	return sum, nil
}

// series returns the counts of the buckets of a range, including those without events.
func (s *Store) series(ctx context.Context, orgID string, r bucketRange) ([]Bucket, error) {
	series := make([]Bucket, r.to-r.from)
	for i := range series {
		series[i].Timestamp = startOf(r.from+int64(i), r.unit)
	}
	rows, err := s.DB.Read(ctx).Query(`SELECT bucket, received, delivered, failed FROM webhook_counts
		WHERE org_id = $1 AND unit = $2 AND bucket >= $3 AND bucket < $4`, orgID, r.unit, r.from, r.to)
	if err != nil {
		return nil, fmt.Errorf("read webhook counts: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var bucket int64
		var n Count
		if err := rows.Scan(&bucket, &n.Received, &n.Delivered, &n.Failed); err != nil {
			return nil, fmt.Errorf("read webhook counts: %w", err)
		}
		series[bucket-r.from].Count = n
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read webhook counts: %w", err)
	}
	return series, nil
}
