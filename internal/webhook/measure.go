package webhook

import (
	"context"
	"fmt"

	"steward/internal/db"
	"steward/internal/stamp"
)

// This file measures webhooks for alerts. Every webhookID may be empty, which means all webhooks in the
// organization. Each statement reads only index entries that count, up to a limit.

// maxMeasured bounds the rows that a measurement counts.
const maxMeasured = 1000

// FailingBefore returns the destination that has been failing the longest, if that began at a time or
// before, with the number of all such destinations, counted up to 1,000.
func (s *Store) FailingBefore(ctx context.Context, orgID, webhookID string, before stamp.Time) (longest FailingDestination, n int64, err error) {
	const where = ` FROM webhook_destinations d WHERE d.org_id = $1 AND d.failing_since IS NOT NULL AND d.failing_since <= $2
		AND $3 IN (d.webhook_id, '')`
	q := s.DB.Read(ctx)
	if err := q.Row(`SELECT count(*) FROM (SELECT 1`+where+` LIMIT $4) AS counted`, orgID, before, webhookID, maxMeasured).Scan(&n); err != nil {
		return longest, 0, fmt.Errorf("count failing destinations: %w", err)
	}
	if n == 0 {
		return longest, 0, nil
	}
	found, err := db.Collect(q, func(row db.Row) (f FailingDestination, err error) {
		var config []byte
		err = row.Scan(&f.WebhookID, &f.WebhookName, &f.DestinationID, &f.Since, &f.LastError, &config)
		f.Host, f.Path = s.placeOf(config)
		return f, err
	}, `SELECT f.webhook_id, w.name, f.id, f.failing_since, COALESCE(f.last_error, ''), f.config
		FROM (SELECT d.*`+where+` ORDER BY d.failing_since LIMIT 1) AS f JOIN webhooks w ON w.org_id = f.org_id AND w.id = f.webhook_id`,
		orgID, before, webhookID)
	if err != nil {
		return longest, 0, fmt.Errorf("find failing destination: %w", err)
	}
	if len(found) == 0 { // it has recovered meanwhile
		return longest, 0, nil
	}
	return found[0], n, nil
}

// OldestDue returns the due time of the first pending delivery to a destination that is not paused, or
// nil if there is none.
func (s *Store) OldestDue(ctx context.Context, orgID, webhookID string) (*stamp.Time, error) {
	return oldestDue(s.DB.Read(ctx), orgID, webhookID)
}

func oldestDue(q db.Querier, orgID, webhookID string) (oldest *stamp.Time, err error) {
	if err := q.Row(`SELECT MIN(due) FROM (SELECT (SELECT q.due_at FROM webhook_queue q WHERE q.destination_id = d.id
		ORDER BY q.due_at LIMIT 1) AS due FROM webhook_destinations d WHERE d.org_id = $1 AND NOT d.paused AND $2 IN (d.webhook_id, '')) AS heads`,
		orgID, webhookID).Scan(&oldest); err != nil {
		return nil, fmt.Errorf("find oldest delivery: %w", err)
	}
	return oldest, nil
}

// CountRejected counts the requests that were rejected since a time, up to a limit. Older ones than a
// day, and more than 1,000 of one webhook, are not kept.
func (s *Store) CountRejected(ctx context.Context, orgID, webhookID string, since stamp.Time, limit int64) (n int64, err error) {
	err = s.DB.Read(ctx).Row(`SELECT count(*) FROM (SELECT 1 FROM webhooks w
		JOIN webhook_rejected r ON r.key >= substr(w.id, 4) || $3 AND r.key < substr(w.id, 4) || '`+afterAll+`'
		WHERE w.org_id = $1 AND $2 IN (w.id, '') LIMIT $4) AS counted`,
		orgID, webhookID, firstULID(since), limit).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count rejected requests: %w", err)
	}
	return n, nil
}
