package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
)

const (
	// After returns about pageEvents events. To find them it reads at most scanRows rows, because it
	// passes over those from other webhooks.
	pageEvents = 256
	scanRows   = 1000
	// maxSkew is how much earlier than its neighbours a commit may be dated, because another replica's
	// clock is slow or its transaction took long.
	maxSkew = time.Minute
	// purgeRows bounds the rows that one of Purge's transactions removes.
	purgeRows = 500
)

// Batch is a set of events that share their kind and organization.
type Batch struct {
	OrgID string
	Kind  Kind
	At    stamp.Time
	Keys  []string // their rows' keys
}

// Append adds events to the log.
func Append(tx *db.Tx, b Batch) error {
	if len(b.Keys) == 0 {
		return nil
	}
	number, err := tx.NumberCommit()
	if err != nil {
		return err
	}
	type event struct {
		OrgID, Key string
		Kind       Kind
		At         stamp.Time
		IDs        string
	}
	var rows db.Bulk[event]
	for _, r := range rowsOf(b.Keys) {
		rows = append(rows, event{OrgID: b.OrgID, Key: r.key, Kind: b.Kind, At: b.At, IDs: r.ids})
	}
	if err := rows.Send(tx, `INSERT INTO webhook_log (org_id, number, key, kind, at, ids)
		SELECT v.org_id, `+number+`, v.key, v.kind, v.at, v.ids FROM {v}`); err != nil {
		return fmt.Errorf("append to log: %w", err)
	}
	return nil
}

const columns = `number, key, kind, at, ids`

func scanRow(from db.Row) (r row, err error) {
	return r, from.Scan(&r.number, &r.key, &r.kind, &r.at, &r.ids)
}

// Head returns the position after an organization's last settled event.
func Head(q db.Querier, orgID string) (Position, error) {
	last, err := scanRow(q.Row(`SELECT `+columns+` FROM webhook_log WHERE org_id = $1 AND number < `+db.Settled(q.Dialect())+`
		ORDER BY number DESC, key DESC LIMIT 1`, orgID))
	if errors.Is(err, db.ErrNoRows) {
		return Position{}, nil
	}
	if err != nil {
		return Position{}, fmt.Errorf("read end of log: %w", err)
	}
	events := last.events()
	return events[len(events)-1].Position, nil
}

// Newest returns the highest number in an organization's log, which may not be settled yet.
func Newest(q db.Querier, orgID string) (number int64, err error) {
	err = q.Row(`SELECT number FROM webhook_log WHERE org_id = $1 ORDER BY number DESC, key DESC LIMIT 1`, orgID).Scan(&number)
	if err != nil && !errors.Is(err, db.ErrNoRows) {
		return 0, fmt.Errorf("read end of log: %w", err)
	}
	return number, nil
}

// IsSettled reports whether all events up to a number are settled.
func IsSettled(q db.Querier, number int64) (settled bool, err error) {
	if err := q.Row(`SELECT CAST($1 AS BIGINT) < `+db.Settled(q.Dialect()), number).Scan(&settled); err != nil {
		return false, fmt.Errorf("read settled number: %w", err)
	}
	return settled, nil
}

// holding returns the row that contains the event at a position, or would contain it.
func holding(q db.Querier, orgID string, p Position) (row, error) {
	r, err := scanRow(q.Row(`SELECT `+columns+` FROM webhook_log WHERE org_id = $1 AND number = $2 AND key <= $3
		ORDER BY key DESC LIMIT 1`, orgID, p.Number, p.Key))
	if err != nil && !errors.Is(err, db.ErrNoRows) {
		return r, fmt.Errorf("find position in log: %w", err)
	}
	return r, nil
}

// Resume returns the position from which a reader continues: normally its own. If the log begins
// later, it is the oldest event. If the log lacks the event for any other reason, the database was
// restored from a backup, and we continue from the position's time. lost reports whether the event was
// purged, perhaps with others after it.
func Resume(q db.Querier, orgID string, p Position) (from Position, lost bool, err error) {
	if p.Key == "" {
		from, err = Seek(q, orgID, p.At)
		return from, false, err
	}
	r, err := holding(q, orgID, p)
	if err != nil || r.has(p) {
		return p, false, err
	}
	oldest, found, err := firstFrom(q, orgID, 0)
	if err != nil {
		return p, false, err
	}
	if !found || p.Number < oldest.Number {
		return Position{}, true, nil
	}
	from, err = Seek(q, orgID, p.At)
	return from, false, err
}

// firstFrom returns the position of the first commit with at least this number, without a key, and
// reports whether there is one.
func firstFrom(q db.Querier, orgID string, number int64) (p Position, found bool, err error) {
	err = q.Row(`SELECT number, at FROM webhook_log WHERE org_id = $1 AND number >= $2 ORDER BY number, key LIMIT 1`,
		orgID, number).Scan(&p.Number, &p.At)
	if errors.Is(err, db.ErrNoRows) {
		return p, false, nil
	}
	if err != nil {
		return p, false, fmt.Errorf("read log: %w", err)
	}
	return p, true, nil
}

// Seek returns the position before the first event committed at or after a time.
func Seek(q db.Querier, orgID string, since stamp.Time) (Position, error) {
	head, err := Head(q, orgID) // first, so that anything committed in the meantime comes after it
	if err != nil {
		return Position{}, err
	}
	low, high := int64(0), head.Number
	for low < high { // binary search for the first commit that is recent enough, if times ascend
		middle := low + (high-low)/2
		p, _, err := firstFrom(q, orgID, middle)
		if err != nil {
			return Position{}, err
		}
		if p.At >= since.Add(-maxSkew) {
			high = middle
		} else {
			low = p.Number + 1
		}
	}
	p := Position{At: since}
	err = q.Row(`SELECT number FROM webhook_log WHERE org_id = $1 AND number >= $2 AND number <= $3 AND at >= $4
		ORDER BY number, key LIMIT 1`, orgID, low, head.Number, since).Scan(&p.Number)
	if errors.Is(err, db.ErrNoRows) {
		return head, nil
	}
	if err != nil {
		return p, fmt.Errorf("search log: %w", err)
	}
	return p, nil
}

// Page is a part of the log.
type Page struct {
	Events []Event
	// End is the position after the page. It may lie after other webhooks' events.
	End Position
	// More reports whether there may be more.
	More bool
	// Lost reports whether the event at the position was purged, perhaps with others after it.
	Lost bool
}

// After returns the settled events after a position, in order. If hook, a webhook's ULID, is not
// empty, it returns only that webhook's events.
func After(q db.Querier, orgID, hook string, p Position) (Page, error) {
	first, err := holding(q, orgID, p)
	if err != nil {
		return Page{}, err
	}
	from := p.Key
	if first.key != "" {
		from = first.key
	}
	rows, err := q.Query(`SELECT number, key, kind, at, CASE WHEN key >= @hook AND key < @end THEN ids ELSE '' END FROM webhook_log
		WHERE org_id = @org_id AND (number, key) >= (@number, @from) AND number < `+db.Settled(q.Dialect())+`
		ORDER BY number, key LIMIT @limit`,
		db.Args{"org_id": orgID, "number": p.Number, "from": from, "hook": hook, "end": hook + "{", "limit": scanRows})
	if err != nil {
		return Page{}, fmt.Errorf("read log: %w", err)
	}
	defer rows.Close()
	page := Page{End: p, Lost: p.Key != "" && !first.has(p)}
	scanned := 0
	for ; len(page.Events) < pageEvents && rows.Next(); scanned++ {
		r, err := scanRow(rows)
		if err != nil {
			return Page{}, fmt.Errorf("read log: %w", err)
		}
		page.add(r, p)
	}
	if err := rows.Err(); err != nil {
		return Page{}, fmt.Errorf("read log: %w", err)
	}
	page.More = len(page.Events) >= pageEvents || scanned == scanRows
	return page, nil
}

// add adds a row's events that come after a position. A row from another webhook has no ids to add.
func (p *Page) add(r row, after Position) {
	if end := (Position{Number: r.number, Key: r.key, At: r.at}); end.Compare(p.End) > 0 {
		p.End = end
	}
	for _, e := range r.events() {
		if e.Compare(after) > 0 {
			p.Events = append(p.Events, e)
			p.End = e.Position
		}
	}
}

// withLogs defines a table logs of all organizations that have events. It skips through the index from
// one organization to the next.
const withLogs = `WITH RECURSIVE logs(org_id) AS (
		SELECT (SELECT org_id FROM webhook_log ORDER BY org_id LIMIT 1)
		UNION ALL
		SELECT (SELECT l.org_id FROM webhook_log l WHERE l.org_id > logs.org_id ORDER BY l.org_id LIMIT 1)
		FROM logs WHERE logs.org_id IS NOT NULL)
	`

// Last returns the highest number in all organizations' logs.
func Last(q db.Querier) (number int64, err error) {
	err = q.Row(withLogs + `SELECT COALESCE(MAX((SELECT l.number FROM webhook_log l WHERE l.org_id = logs.org_id ORDER BY l.number DESC LIMIT 1)), 0)
		FROM logs`).Scan(&number)
	if err != nil {
		return 0, fmt.Errorf("read last number of log: %w", err)
	}
	return number, nil
}

// Lag returns how long an organization's oldest unsettled event has waited, or 0 if none waits. Events
// wait only on PostgreSQL, while an older transaction is open anywhere on its server.
func Lag(q db.Querier, orgID string, now stamp.Time) (time.Duration, error) {
	return lag(q, now, `SELECT (SELECT at FROM webhook_log WHERE org_id = $1 AND number >= `+db.Settled(q.Dialect())+`
		ORDER BY number, key LIMIT 1)`, orgID)
}

// MaxLag returns the longest Lag among all organizations.
func MaxLag(q db.Querier, now stamp.Time) (time.Duration, error) {
	return lag(q, now, withLogs+`SELECT MIN((SELECT l.at FROM webhook_log l WHERE l.org_id = logs.org_id AND l.number >= `+db.Settled(q.Dialect())+`
		ORDER BY l.number, l.key LIMIT 1)) FROM logs`)
}

func lag(q db.Querier, now stamp.Time, oldest string, args ...any) (time.Duration, error) {
	if q.Dialect() == db.SQLite {
		return 0, nil
	}
	var at *stamp.Time
	if err := q.Row(oldest, args...).Scan(&at); err != nil {
		return 0, fmt.Errorf("read lag of log: %w", err)
	}
	if at == nil {
		return 0, nil
	}
	return max(now.Sub(*at), 0), nil
}

// Organizations returns the next organizations that have events, in order, after the given one.
func Organizations(q db.Querier, after string) (orgIDs []string, err error) {
	for len(orgIDs) < 100 {
		err := q.Row(`SELECT org_id FROM webhook_log WHERE org_id > $1 ORDER BY org_id LIMIT 1`, after).Scan(&after)
		if errors.Is(err, db.ErrNoRows) {
			return orgIDs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list organizations of log: %w", err)
		}
		orgIDs = append(orgIDs, after)
	}
	return orgIDs, nil
}

// Purge removes an organization's oldest events, committed before a time, in small transactions and at
// most the given number of rounds. It reports whether none is left.
func Purge(ctx context.Context, d *db.DB, orgID string, before stamp.Time, rounds int) (all bool, err error) {
	for range rounds {
		oldest, found, err := firstFrom(d.Read(ctx), orgID, 0)
		if err != nil {
			return false, err
		}
		if !found || oldest.At >= before {
			return true, nil
		}
		if _, err := d.Exec(ctx, `DELETE FROM webhook_log WHERE org_id = $1 AND at < $2 AND number <= (SELECT MAX(number) FROM
			(SELECT number FROM webhook_log WHERE org_id = $1 ORDER BY number, key LIMIT $3) AS oldest)`,
			orgID, before, purgeRows); err != nil {
			return false, fmt.Errorf("purge log: %w", err)
		}
	}
	return false, nil
}
