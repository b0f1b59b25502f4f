package webhook

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

// settledAfter is when no transaction, and no replica's clock, adds rows to a time any more.
const settledAfter = 5 * time.Minute

// list is the receipts or the deliveries of a webhook.
type list struct{ table, orgID, webhookID string }

// split cuts the whole minutes before a time out of a window. Windows that slide on from one request to the next have most of them in
// common. What is left are its ends. A receipt has few deliveries.
func (f Filter) split(before stamp.Time) (settled *Filter, rest []Filter) {
	const minute = stamp.Time(time.Minute / time.Microsecond)
	from, to := stamp.Time(0), before/minute*minute
	if f.Since != nil {
		from = (max(0, *f.Since) + minute - 1) / minute * minute
	}
	if f.Until != nil {
		to = min(to, *f.Until/minute*minute)
	}
	if from >= to || f.ReceiptID != "" {
		return nil, []Filter{f}
	}
	inner, earlier, later := f, f, f
	inner.Since, inner.Until, earlier.Until, later.Since = &from, &to, &from, &to
	if f.Since != nil && *f.Since < from {
		rest = append(rest, earlier)
	}
	if f.Until == nil || to < *f.Until {
		rest = append(rest, later)
	}
	return &inner, rest
}

// settled tells up to when nothing changes any more of what a filter leaves: rows come to the last minutes only, and of a status nobody
// knows what comes of a delivery while it is pending. Both other states are for ever.
func (s *Store) settled(q db.Querier, l list, f Filter, now time.Time) (stamp.Time, error) {
	until := stamp.Of(now.Add(-settledAfter))
	switch f.Status {
	case "":
		return until, nil
	case Pending:
		return 0, nil
	}
	var oldest stamp.Time
	all := keysOf(l.webhookID, nil, nil)
	err := q.Row(`SELECT date FROM webhook_queue WHERE key >= $1 AND key < $2 ORDER BY key LIMIT 1`, all.from, all.to).Scan(&oldest)
	if errors.Is(err, db.ErrNoRows) {
		return until, nil
	}
	return min(until, oldest), err
}

// length tells how long a list is, or NotFound without its webhook. Of whole lists the length is kept; what a filter leaves is counted, or
// Unknown when it is too much. That it is too much is remembered, and what is settled of it.
func (s *Store) length(q db.Querier, l list, f Filter) (int64, error) {
	if f == (Filter{}) {
		n, _, err := l.numbers(q, l.args(), l.total(), "0")
		return n, err
	}
	now := s.Now()
	before, err := s.settled(q, l, f, now)
	if err != nil {
		return 0, err
	}
	settled, rest := f.split(before)
	n, known := int64(0), settled == nil
	if settled != nil {
		n, known = s.crowds.Size(l.window(*settled), now)
	}
	if known && n == page.Unknown || s.crowds.Has(l.window(f), now) {
		_, _, err := l.numbers(q, l.args(), "0", "0")
		return page.Unknown, err
	}
	c, first, second := clauses{args: l.args()}, "0", "0"
	if !known {
		first = c.count(l, *settled)
	}
	for _, part := range rest {
		second += " + " + c.count(l, part)
	}
	counted, more, err := l.numbers(q, c.args, first, second)
	if err != nil {
		return 0, err
	}
	if !known {
		n = counted
		s.crowds.Keep(l.window(*settled), upTo(n), now)
	}
	if n = upTo(n + more); n == page.Unknown {
		s.crowds.Note(l.window(f), now)
	}
	return n, nil
}

// upTo gives a number that is not too large to be counted exactly.
func upTo(n int64) int64 {
	if n > page.MaxCounted {
		return page.Unknown
	}
	return n
}

func (l list) args() []any { return []any{l.orgID, l.webhookID} }

// window is what a filter leaves of a list, as a key.
type window struct {
	list
	Filter       // its times stand below, by value
	since, until stamp.Time
}

func (l list) window(f Filter) window {
	w := window{list: l, Filter: f, since: math.MinInt64, until: math.MaxInt64}
	if f.Since != nil {
		w.since, w.Since = *f.Since, nil
	}
	if f.Until != nil {
		w.until, w.Until = *f.Until, nil
	}
	return w
}

// total is how long the whole list is.
func (l list) total() string {
	return `(SELECT COALESCE(CAST(SUM(` + strings.TrimPrefix(l.table, "webhook_") + `) AS BIGINT), 0) FROM webhook_totals
		WHERE org_id = $1 AND webhook_id = $2)`
}

// count is how much of a list a filter leaves, or more than MaxCounted. PostgreSQL does not see the keys when it makes a plan, and so keeps
// one: to make one for each pair of keys took as long as to count some hundred rows.
func (c *clauses) count(l list, f Filter) string {
	where, on := clauses{args: c.args}, keysOf(l.webhookID, f.Since, f.Until)
	where.add("key >= (SELECT ", on.from)
	where.add(") AND key < (SELECT ", on.to)
	where.text.WriteString(")")
	where.narrow(f)
	c.args = where.args
	return `(SELECT count(*) FROM (SELECT 1 FROM ` + l.table + ` WHERE ` + where.text.String() +
		` LIMIT ` + strconv.Itoa(page.MaxCounted+1) + `) x)`
}

// numbers asks for two numbers, if the webhook is there; $1 and $2 are its organization and its id.
func (l list) numbers(q db.Querier, args []any, first, second string) (a, b int64, err error) {
	err = q.Row(`SELECT `+first+`, `+second+` FROM webhooks WHERE org_id = $1 AND id = $2`, args...).Scan(&a, &b)
	if errors.Is(err, db.ErrNoRows) {
		return 0, 0, errs.Missing("webhook", l.webhookID)
	}
	return a, b, err
}
