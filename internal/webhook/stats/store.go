package stats

import (
	"context"
	"fmt"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/period"
	"steward/internal/stamp"
)

// counts has an organization's events in each unit of time, hookCounts a webhook's.
var (
	counts = db.NewCounters("webhook_counts",
		[]string{"org_id", "unit", "bucket"}, []string{"received", "delivered", "failed", "filtered"})
	hookCounts = db.NewCounters("webhook_counts_each",
		[]string{"org_id", "webhook_id", "unit", "bucket"}, []string{"received", "delivered", "failed", "filtered"})
)

// Events counts a webhook's events at one time.
type Events struct {
	OrgID, WebhookID string
	At               stamp.Time
	Count
}

// Add counts events, as part of a transaction.
func Add(tx *db.Tx, e Events) error {
	for _, unit := range period.Units() {
		bucket := period.BucketOf(e.At, unit)
		if err := counts.Add(tx, []any{e.OrgID, unit, bucket}, e.Received, e.Delivered, e.Failed, e.Filtered); err != nil {
			return fmt.Errorf("count webhook events: %w", err)
		}
		if err := hookCounts.Add(tx, []any{e.OrgID, e.WebhookID, unit, bucket}, e.Received, e.Delivered, e.Failed, e.Filtered); err != nil {
			return fmt.Errorf("count events of a webhook: %w", err)
		}
	}
	return nil
}

// Remove deletes up to limit counts of a deleted webhook, and returns their number. It leaves the
// organization's counts alone.
func Remove(tx *db.Tx, orgID, webhookID string, limit int) (int64, error) {
	n, err := tx.Exec(`DELETE FROM webhook_counts_each WHERE org_id = $1 AND webhook_id = $2 AND (unit, bucket) IN
		(SELECT unit, bucket FROM webhook_counts_each WHERE org_id = $1 AND webhook_id = $2 LIMIT $3)`, orgID, webhookID, limit)
	if err != nil {
		return 0, fmt.Errorf("delete webhook counts: %w", err)
	}
	return n, nil
}

// Store reads the counts.
type Store struct {
	DB  *db.DB
	Now func() time.Time
}

// Query has the analytics routes' query parameters.
type Query struct {
	WebhookID string `query:"webhookId" doc:"Count only what happens to this webhook" example:"wh_01jcq43f5h8k1n4q7t0w3z6c9f"`
	period.Query
}

// source locates an organization's or webhook's counts: a table, the condition for its rows, and the
// condition's arguments.
type source struct {
	table, condition string
	args             []any
}

// sourceOf returns a webhook's counts, or the organization's if webhookID is empty. If the webhook
// belongs to another organization, no counts match.
func sourceOf(orgID, webhookID string) source {
	if webhookID == "" {
		return source{"webhook_counts", "org_id = $1", []any{orgID}}
	}
	return source{"webhook_counts_each", "org_id = $1 AND webhook_id = $2", []any{orgID, webhookID}}
}

// rows returns a query for the counts in a range of buckets. It appends the query's arguments to args.
func (s source) rows(columns string, r period.Range, args []any) (text string, all []any) {
	n := len(args)
	text = fmt.Sprintf(`SELECT %s FROM %s WHERE %s AND unit = $%d AND bucket >= $%d AND bucket < $%d`,
		columns, s.table, s.condition, n+1, n+2, n+3)
	return text, append(args, r.Unit, r.From, r.To)
}

// Analytics returns an organization's or webhook's totals, in whole minutes.
func (s *Store) Analytics(ctx context.Context, orgID string, q Query) (Analytics, error) {
	span, err := q.Span(s.Now())
	if err != nil {
		return Analytics{}, err
	}
	minutes := span.Minutes()
	sum, err := s.sum(ctx, sourceOf(orgID, q.WebhookID), minutes)
	return Analytics{Period: span.Period(minutes), Summary: sum}, err
}

// Since returns an organization's or webhook's totals from the minute of a time until now.
func (s *Store) Since(ctx context.Context, orgID, webhookID string, since stamp.Time) (Summary, error) {
	minute := period.Units()[0]
	now := stamp.Of(s.Now())
	return s.sum(ctx, sourceOf(orgID, webhookID),
		period.Range{Unit: minute, From: period.BucketOf(since, minute), To: period.BucketOf(now, minute) + 1})
}

// Timeseries returns an organization's or webhook's counts, in whole buckets.
func (s *Store) Timeseries(ctx context.Context, orgID string, q Query) (Timeseries, error) {
	span, err := q.Span(s.Now())
	if err != nil {
		return Timeseries{}, err
	}
	buckets := span.Buckets()
	series, err := s.series(ctx, sourceOf(orgID, q.WebhookID), buckets)
	return Timeseries{Period: span.Period(buckets), Series: series}, err
}

// sum adds up the counts in a range.
func (s *Store) sum(ctx context.Context, from source, r period.Range) (Summary, error) {
	var parts []string
	args := from.args
	for _, part := range r.Split() {
		var text string
		text, args = from.rows(`received, delivered, failed, filtered`, part, args)
		parts = append(parts, text)
	}
	text := `SELECT CAST(COALESCE(SUM(received), 0) AS BIGINT), CAST(COALESCE(SUM(delivered), 0) AS BIGINT),
		CAST(COALESCE(SUM(failed), 0) AS BIGINT), CAST(COALESCE(SUM(filtered), 0) AS BIGINT) FROM (` + strings.Join(parts, " UNION ALL ") + `) AS counted`
	var sum Summary
	if err := s.DB.Read(ctx).Row(text, args...).Scan(&sum.Received, &sum.Delivered, &sum.Failed, &sum.Filtered); err != nil {
		return Summary{}, fmt.Errorf("sum webhook counts: %w", err)
	}
	return sum, nil
}

// series returns each bucket's counts in a range, even for empty ones.
func (s *Store) series(ctx context.Context, from source, r period.Range) ([]Bucket, error) {
	series := make([]Bucket, r.Len())
	for i := range series {
		series[i].Timestamp = r.Start(int64(i))
	}
	text, args := from.rows(`bucket, received, delivered, failed, filtered`, r, from.args)
	type counted struct {
		bucket int64
		Count
	}
	all, err := db.Collect(s.DB.Read(ctx), func(row db.Row) (c counted, err error) {
		return c, row.Scan(&c.bucket, &c.Received, &c.Delivered, &c.Failed, &c.Filtered)
	}, text, args...)
	if err != nil {
		return nil, fmt.Errorf("read webhook counts: %w", err)
	}
	for _, c := range all {
		series[c.bucket-r.From].Count = c.Count
	}
	return series, nil
}
