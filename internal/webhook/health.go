package webhook

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"steward/internal/db"
	"steward/internal/stamp"
	"steward/internal/webhook/send"
)

// maxFailing is how many failing destinations are listed.
const maxFailing = 20

// Health is what an organization's webhooks are doing now.
type Health struct {
	Pending int64 // deliveries that are waiting or being sent
	// OldestDueAt is when the first pending delivery is or was due; nil if none is pending.
	OldestDueAt *stamp.Time
	// Failing are destinations whose last attempts failed, those that began last first.
	Failing []Failing
}

// Failing is a destination whose last attempts failed.
type Failing struct {
	WebhookID     string
	DestinationID string
	Host          string // of its URL
	Since         stamp.Time
	Count         int64 // of attempts that failed since the last success
	LastError     string
}

// streak is what the results of a destination in one transaction say about its health.
type streak struct {
	recovered bool // one of them is a success
	since     stamp.Time
	failed    int64 // after the last success
	lastError string
}

// streaks returns the streaks of the destinations of some results. Results of attempts that were not
// made, since the destination was deleted or disabled or the receipt is gone, say nothing.
func streaks(results []Result) map[string]streak {
	ordered := slices.SortedStableFunc(slices.Values(results), func(a, b Result) int { return cmp.Compare(a.At, b.At) })
	all := map[string]streak{}
	for _, r := range ordered {
		if r.Final {
			continue
		}
		to := r.Delivery.DestinationID
		if r.status() == Success {
			all[to] = streak{recovered: true}
			continue
		}
		s := all[to]
		if s.failed == 0 {
			s.since = r.At
		}
		s.failed++
		s.lastError = send.CleanText(r.Error)
		all[to] = s
	}
	return all
}

// writeHealth notes for destinations how their last attempts ended. Only that of a destination that
// fails, or has failed until now, is written. A destination that another transaction has locked is
// left out: its next attempts are noted.
func writeHealth(tx *db.Tx, results []Result) error {
	all := streaks(results)
	skip := db.SkipLocked(tx.Dialect())
	recovered := db.NewBulk(db.Text)
	failed := db.NewBulk(db.Text, db.Int, db.Int, db.Text)
	for _, destinationID := range slices.Sorted(maps.Keys(all)) {
		s := all[destinationID]
		if s.recovered {
			recovered.Add(destinationID)
		}
		if s.failed > 0 {
			failed.Add(destinationID, int64(s.since), s.failed, s.lastError)
		}
	}
	if err := recovered.Send(tx, `UPDATE webhook_destinations SET failing_since = NULL, failing_count = 0, last_error = NULL
		WHERE id IN (SELECT id FROM webhook_destinations WHERE failing_since IS NOT NULL AND id {IN v}`+skip+`)`); err != nil {
		return fmt.Errorf("note recovered destinations: %w", err)
	}
	if err := failed.Send(tx, `UPDATE webhook_destinations SET failing_since = COALESCE(failing_since, v.column2),
		failing_count = failing_count + v.column3, last_error = v.column4 {FROM v}
		WHERE id = v.column1 AND id IN (SELECT d.id FROM webhook_destinations d WHERE d.id = v.column1`+skip+`)`); err != nil {
		return fmt.Errorf("note failing destinations: %w", err)
	}
	return nil
}

// clearHealth forgets how the last attempts of a destination ended.
func clearHealth(tx *db.Tx, destinationID string) error {
	if _, err := tx.Exec(`UPDATE webhook_destinations SET failing_since = NULL, failing_count = 0, last_error = NULL
		WHERE id = $1 AND failing_since IS NOT NULL`, destinationID); err != nil {
		return fmt.Errorf("forget health of destination: %w", err)
	}
	return nil
}

// Health returns what the webhooks of an organization are doing. Its cost is the number of webhooks
// and destinations, not of deliveries.
func (s *Store) Health(ctx context.Context, orgID string) (Health, error) {
	q := s.DB.Read(ctx)
	sums, err := totals.Sum(q, orgID)
	if err != nil {
		return Health{}, err
	}
	h := Health{Pending: sums[2]}
	if err := q.Row(`SELECT MIN(due) FROM (SELECT (SELECT q.due_at FROM webhook_queue q WHERE q.destination_id = d.id
		ORDER BY q.due_at LIMIT 1) AS due FROM webhook_destinations d WHERE d.org_id = $1) AS heads`, orgID).Scan(&h.OldestDueAt); err != nil {
		return Health{}, fmt.Errorf("find oldest delivery: %w", err)
	}
	h.Failing, err = s.failing(q, orgID)
	return h, err
}

// failing returns the destinations that fail, those that began last first.
func (s *Store) failing(q db.Querier, orgID string) ([]Failing, error) {
	found, err := db.Collect(q, s.scanFailing, `SELECT webhook_id, id, config, failing_since, failing_count, last_error
		FROM webhook_destinations WHERE org_id = $1 AND failing_since IS NOT NULL
		ORDER BY failing_since DESC LIMIT $2`, orgID, maxFailing)
	if err != nil {
		return nil, fmt.Errorf("list failing destinations: %w", err)
	}
	return found, nil
}

func (s *Store) scanFailing(row db.Row) (f Failing, err error) {
	var config []byte
	if err := row.Scan(&f.WebhookID, &f.DestinationID, &config, &f.Since, &f.Count, &f.LastError); err != nil {
		return f, err
	}
	f.Host = s.hostOf(config)
	return f, nil
}

// hostOf returns the host of a destination's URL, or "" if its config cannot be read.
func (s *Store) hostOf(config []byte) string {
	text, err := s.Ring.Open(configPurpose, config)
	if err != nil {
		return ""
	}
	var c Config
	if err := c.UnmarshalJSON(text); err != nil {
		return ""
	}
	to, err := url.Parse(c.URL)
	if err != nil {
		return ""
	}
	return to.Host
}
