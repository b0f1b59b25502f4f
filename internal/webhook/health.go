package webhook

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"steward/internal/db"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/webhook/eventlog"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/send"
)

// maxFailing bounds the list of failing destinations.
const maxFailing = 100

// Health sums up an organization's webhooks at this moment.
type Health struct {
	Pending int64 // deliveries that are waiting or being sent
	// OldestDueAt is the due time of the first pending delivery to a destination that is not paused; nil
	// if there is none.
	OldestDueAt *stamp.Time
	// Failing lists failing destinations, the most recent first, up to a limit. FailingTotal counts
	// them all.
	Failing      []FailingDestination
	FailingTotal int64
	// TailLag is how long live tails have had to withhold the oldest event.
	TailLag time.Duration
}

// maxFailingCounted bounds the rows that CountFailing reads.
const maxFailingCounted = 10_000

// CountFailing counts the failing destinations in all organizations, up to 10,000.
func (s *Store) CountFailing(ctx context.Context) (n int64, err error) {
	err = s.DB.Read(ctx).Row(`SELECT count(*) FROM
		(SELECT 1 FROM webhook_destinations WHERE failing_since IS NOT NULL LIMIT $1) counted`, maxFailingCounted).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count failing destinations: %w", err)
	}
	return n, nil
}

// FailingState sums up the chains to a destination whose last ended attempt failed. A destination is
// failing from its first failed attempt until an attempt succeeds while no other waits for a retry.
type FailingState struct {
	_ struct{} `goName:"WebhookFailingState"`

	Since     stamp.Time  `json:"since" format:"date-time" doc:"Since when there have been failing deliveries without a break" example:"2026-11-15T08:30:00.123Z"`
	Count     int64       `json:"count" doc:"Events whose last attempt failed: those that wait for a retry, and those that have failed for good meanwhile" example:"7"`
	Waiting   int64       `json:"waiting" doc:"Attempts that wait for their retry or are being sent; counted up to 10,000" example:"5"`
	NextDueAt *stamp.Time `json:"next_due_at,omitempty" format:"date-time" doc:"When the first of them is due; absent if none waits"`
	LastError string      `json:"last_error" example:"the destination answered 503"`
}

// FailingDestination is a destination that is failing.
type FailingDestination struct {
	WebhookID     string
	WebhookName   string
	DestinationID string
	Host, Path    string // from its URL
	FailingState
}

// streak sums up a destination's health from its results in one transaction.
type streak struct {
	succeeded bool       // at least one succeeded
	failed    bool       // one failed and waits for its retry, or failed for good after the last success
	since     stamp.Time // the first such failure
	lastError string     // from the last such failure
	ended     int64      // how many failed for good after the last success
}

// streaks returns the destinations' streaks. It ignores attempts that we did not make, because the
// destination was deleted or disabled or the receipt is gone: they say nothing about health.
func streaks(results []queue.Result) map[string]streak {
	ordered := slices.SortedStableFunc(slices.Values(results), func(a, b queue.Result) int { return cmp.Compare(a.At, b.At) })
	ordered = slices.DeleteFunc(ordered, func(r queue.Result) bool { return r.Final })
	lastSuccess := map[string]int{}
	for i, r := range ordered {
		if statusOf(r) == Success {
			lastSuccess[r.Row.DestinationID] = i
		}
	}
	all := map[string]streak{}
	for i, r := range ordered {
		to := r.Row.DestinationID
		last, succeeded := lastSuccess[to]
		s := all[to]
		s.succeeded = succeeded
		all[to] = s.add(r, succeeded && i <= last)
	}
	return all
}

// add adds a result. recovered reports whether a success followed it.
func (s streak) add(r queue.Result, recovered bool) streak {
	if statusOf(r) == Success || recovered && !r.IsRetried() {
		return s
	}
	if !s.failed {
		s.since = r.At
	}
	s.failed = true
	s.lastError = send.CleanText(r.Error)
	if !r.IsRetried() {
		s.ended++
	}
	return s
}

// firstWaiting picks the first due among destination d's waiting attempts.
const firstWaiting = ` FROM webhook_queue q WHERE q.destination_id = d.id AND q.retries > 0 ORDER BY q.due_at, q.key LIMIT 1`

// writeHealth records destinations' health. Call it once the next attempts are in the queue. It writes
// only destinations that fail now or have failed until now. It skips a destination that another
// transaction has locked, because we will record its next attempts anyway. A paused one is not failing.
func writeHealth(tx *db.Tx, results []queue.Result) error {
	all := streaks(results)
	skip := db.SkipLocked(tx.Dialect())
	type failure struct {
		ID           string
		FailingSince stamp.Time
		FailingCount int64
		LastError    string
	}
	var succeeded db.Bulk[string]
	var failed db.Bulk[failure]
	for _, destinationID := range slices.Sorted(maps.Keys(all)) {
		s := all[destinationID]
		if s.succeeded {
			succeeded = append(succeeded, destinationID)
		}
		if s.failed {
			failed = append(failed, failure{
				ID: destinationID, FailingSince: s.since, FailingCount: s.ended, LastError: s.lastError,
			})
		}
	}
	if err := succeeded.Send(tx, `UPDATE webhook_destinations SET failing_since = NULL, failing_count = 0, last_error = NULL
		WHERE id IN (SELECT d.id FROM webhook_destinations d WHERE d.failing_since IS NOT NULL AND d.id {IN v}
			AND (SELECT q.key`+firstWaiting+`) IS NULL`+skip+`)`); err != nil {
		return fmt.Errorf("note recovered destinations: %w", err)
	}
	if err := failed.Send(tx, `UPDATE webhook_destinations SET failing_since = COALESCE(failing_since, v.failing_since),
		failing_count = failing_count + v.failing_count, last_error = v.last_error {FROM v}
		WHERE id = v.id AND id IN (SELECT d.id FROM webhook_destinations d WHERE d.id = v.id AND NOT d.paused`+skip+`)`); err != nil {
		return fmt.Errorf("note failing destinations: %w", err)
	}
	return nil
}

// countRetried takes a chain that had failed for good out of the count, because another attempt
// follows and will count it again.
func countRetried(tx *db.Tx, last Delivery) error {
	if _, err := tx.Exec(`UPDATE webhook_destinations SET failing_count = failing_count - 1 WHERE id = $1 AND failing_count > 0
		AND failing_since <= (SELECT finished_at FROM webhook_deliveries WHERE key = $2)`, last.DestinationID, last.key); err != nil {
		return fmt.Errorf("note retried delivery: %w", err)
	}
	return nil
}

// clearHealth forgets a destination's health.
func clearHealth(tx *db.Tx, destinationID string) error {
	if _, err := tx.Exec(`UPDATE webhook_destinations SET failing_since = NULL, failing_count = 0, last_error = NULL
		WHERE id = $1 AND failing_since IS NOT NULL`, destinationID); err != nil {
		return fmt.Errorf("forget health of destination: %w", err)
	}
	return nil
}

// noteWaiting marks a destination with forgotten health as failing again if any attempts wait for a
// retry.
func noteWaiting(tx *db.Tx, destinationID string) error {
	if _, err := tx.Exec(`UPDATE webhook_destinations AS d SET failing_since = (SELECT q.date`+firstWaiting+`),
		last_error = COALESCE((SELECT f.error FROM webhook_deliveries f WHERE f.destination_id = d.id AND f.failed = true
			ORDER BY f.destination_id DESC, f.key DESC LIMIT 1), '')
		WHERE id = $1 AND failing_since IS NULL AND (SELECT q.key`+firstWaiting+`) IS NOT NULL`, destinationID); err != nil {
		return fmt.Errorf("note waiting attempts: %w", err)
	}
	return nil
}

// Health returns an organization's Health. Its cost grows with the number of webhooks and
// destinations, not with their deliveries.
func (s *Store) Health(ctx context.Context, orgID string) (Health, error) {
	q := s.DB.Read(ctx)
	sums, err := totals.Sum(q, orgID)
	if err != nil {
		return Health{}, err
	}
	h := Health{Pending: sums[2]}
	if h.OldestDueAt, err = oldestDue(q, orgID, ""); err != nil {
		return Health{}, err
	}
	if err := q.Row(`SELECT count(*) FROM webhook_destinations WHERE org_id = $1 AND failing_since IS NOT NULL`,
		orgID).Scan(&h.FailingTotal); err != nil {
		return Health{}, fmt.Errorf("count failing destinations: %w", err)
	}
	if h.TailLag, err = eventlog.Lag(q, orgID, stamp.Of(time.Now())); err != nil {
		return Health{}, err
	}
	h.Failing, err = s.failing(q, orgID)
	return h, err
}

// TailLag returns, in seconds, the longest time that live tails have had to withhold any
// organization's events.
func (s *Store) TailLag(ctx context.Context) (float64, error) {
	lag, err := eventlog.MaxLag(s.DB.Read(ctx), stamp.Of(time.Now()))
	return lag.Seconds(), err
}

// maxCounted bounds the count of a destination's waiting attempts.
var maxCounted = strconv.Itoa(page.MaxCounted)

// failingColumns are destination d's columns for a FailingState. They look for waiting attempts only
// if d is failing.
var failingColumns = `d.failing_since, d.failing_count, d.last_error,
	CASE WHEN d.failing_since IS NOT NULL THEN (SELECT count(*) FROM (SELECT 1 FROM webhook_queue q
		WHERE q.destination_id = d.id AND q.retries > 0 ORDER BY q.due_at, q.key LIMIT ` + maxCounted + `) AS counted) END,
	CASE WHEN d.failing_since IS NOT NULL THEN (SELECT q.due_at` + firstWaiting + `) END`

// failingRow is a FailingState as scanned from a row.
type failingRow struct {
	since, waiting *int64
	ended          int64
	lastError      *string
	nextDue        *stamp.Time
}

func (r *failingRow) columns() []any {
	return []any{&r.since, &r.ended, &r.lastError, &r.waiting, &r.nextDue}
}

// failing returns nil if the destination is not failing.
func (r *failingRow) failing() *FailingState {
	if r.since == nil {
		return nil
	}
	f := &FailingState{Since: stamp.Time(*r.since), Count: r.ended + *r.waiting, Waiting: *r.waiting, NextDueAt: r.nextDue}
	if r.lastError != nil {
		f.LastError = *r.lastError
	}
	return f
}

// failingText lists an organization's failing destinations, the most recent first.
var failingText = `SELECT d.webhook_id, w.name, d.id, d.config, ` + failingColumns + `
	FROM (SELECT * FROM webhook_destinations WHERE org_id = $1 AND failing_since IS NOT NULL
		ORDER BY failing_since DESC LIMIT $2) AS d
	JOIN webhooks w ON w.org_id = d.org_id AND w.id = d.webhook_id ORDER BY d.failing_since DESC`

// failing returns up to maxFailing failing destinations.
func (s *Store) failing(q db.Querier, orgID string) ([]FailingDestination, error) {
	found, err := db.Collect(q, s.scanFailing, failingText, orgID, maxFailing)
	if err != nil {
		return nil, fmt.Errorf("list failing destinations: %w", err)
	}
	return found, nil
}

func (s *Store) scanFailing(row db.Row) (f FailingDestination, err error) {
	var config []byte
	var r failingRow
	if err := row.Scan(append([]any{&f.WebhookID, &f.WebhookName, &f.DestinationID, &config}, r.columns()...)...); err != nil {
		return f, err
	}
	f.FailingState = *r.failing()
	f.Host, f.Path = s.placeOf(config)
	return f, nil
}

// placeOf returns the host and path in a destination's URL, or "" if its config cannot be read. It
// omits the query, which may contain credentials.
func (s *Store) placeOf(config []byte) (host, path string) {
	text, err := s.Ring.Open(configPurpose, config)
	if err != nil {
		return "", ""
	}
	var c Config
	if err := c.UnmarshalJSON(text); err != nil {
		return "", ""
	}
	to, err := url.Parse(c.URL)
	if err != nil {
		return "", ""
	}
	return to.Host, cmp.Or(to.EscapedPath(), "/")
}
