package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"steward/internal/db"
	"steward/internal/stamp"
)

// laterText lists a destination's waiting attempts after a place, in the order they are due.
const laterText = ` FROM webhook_queue WHERE destination_id = $1 AND retries > 0 AND (due_at, key) > ($2, $3)
	ORDER BY due_at, key LIMIT `

// maxWaiting bounds the count of waiting attempts.
const maxWaiting = 1_000_000

// CountWaiting counts the destination's waiting attempts that are not due yet, up to maxWaiting.
func (s *Store) CountWaiting(q db.Querier, destinationID string) (n int64, err error) {
	if err := q.Row(`SELECT count(*) FROM (SELECT 1`+laterText+strconv.Itoa(maxWaiting)+`) AS waiting`,
		destinationID, stamp.Of(s.Now()), afterAll).Scan(&n); err != nil {
		return 0, fmt.Errorf("count waiting attempts: %w", err)
	}
	return n, nil
}

// Recover makes a destination's waiting attempts due: the first at once and then rate per second, or
// all now if rate is 0. It returns how many it found in its first batch, and whether those were all.
// If not, the rest follow in the background.
func (s *Store) Recover(tx *db.Tx, destinationID string, rate int64) (n int64, done bool, err error) {
	r := newRecovery(destinationID, rate, stamp.Of(s.Now()))
	if err := r.insert(tx); err != nil {
		return 0, false, err
	}
	return s.recoverBatch(tx, r)
}

// insert stores a recovery and replaces an unfinished one. Everybody locks this row before any in the
// queue, so that nobody deadlocks.
func (r recovery) insert(tx *db.Tx) error {
	if _, err := tx.Exec(`INSERT INTO webhook_recoveries (destination_id, rate, started_at, next_due, to_due, to_key)
		VALUES (@destination_id, @rate, @started_at, @next_due, @to_due, @to_key) ON CONFLICT (destination_id) DO UPDATE SET rate = excluded.rate,
		started_at = excluded.started_at, next_due = excluded.next_due, to_due = excluded.to_due, to_key = excluded.to_key`,
		db.Args{
			"destination_id": r.destinationID, "rate": r.rate, "started_at": r.startedAt, "next_due": r.nextDue, "to_due": r.toDue,
			"to_key": r.toKey,
		}); err != nil {
		return fmt.Errorf("insert recovery: %w", err)
	}
	return nil
}

// dueRetries counts a destination's retries that are due, up to RecoverBatch.
func (s *Store) dueRetries(q db.Querier, destinationID string) (n int, err error) {
	if err := q.Row(`SELECT count(*) FROM (SELECT 1 FROM webhook_queue WHERE destination_id = $1 AND retries > 0 AND due_at <= $2
		ORDER BY due_at, key LIMIT `+strconv.Itoa(RecoverBatch)+`) AS due`, destinationID, stamp.Of(s.Now())).Scan(&n); err != nil {
		return 0, fmt.Errorf("count due retries: %w", err)
	}
	return n, nil
}

// recoverBatch makes as many of a recovery's next attempts due as there is room for, and saves its
// progress; at the end it deletes the row. It returns how many attempts it found.
func (s *Store) recoverBatch(tx *db.Tx, r recovery) (n int64, done bool, err error) {
	due, err := s.dueRetries(tx, r.destinationID)
	if err != nil {
		return 0, false, err
	}
	room := r.room(due, stamp.Of(s.Now()))
	if room == 0 {
		return 0, false, nil
	}
	rows, err := db.Collect(tx, func(row db.Row) (w waitingRow, err error) {
		return w, row.Scan(&w.key, &w.due, &w.date)
	}, `SELECT key, due_at, date`+laterText+`$4`, r.destinationID, r.toDue, r.toKey, room)
	if err != nil {
		return 0, false, fmt.Errorf("read waiting attempts: %w", err)
	}
	if err := setDue(tx, r.advance(rows, stamp.Of(s.Now()))); err != nil {
		return 0, false, err
	}
	tx.OnCommit(func() { s.Notify([]string{r.destinationID}) })
	done = len(rows) < room
	if done {
		return int64(len(rows)), true, deleteRecovery(tx, r.destinationID)
	}
	if _, err := tx.Exec(`UPDATE webhook_recoveries SET next_due = $2, to_due = $3, to_key = $4 WHERE destination_id = $1`,
		r.destinationID, r.nextDue, r.toDue, r.toKey); err != nil {
		return 0, false, fmt.Errorf("store recovery: %w", err)
	}
	return int64(len(rows)), false, nil
}

// setDue sets waiting attempts' due times, in key order. It leaves attempts alone that have ended or
// are due earlier.
func setDue(tx *db.Tx, rows []waitingRow) error {
	slices.SortFunc(rows, func(a, b waitingRow) int { return cmp.Compare(a.key, b.key) })
	type attempt struct {
		Key   string
		DueAt stamp.Time
	}
	changed := make(db.Bulk[attempt], len(rows))
	for i, row := range rows {
		changed[i] = attempt{Key: row.key, DueAt: row.due}
	}
	if err := changed.Send(tx, `UPDATE webhook_queue SET due_at = v.due_at {FROM v}
		WHERE key = v.key AND due_at > v.due_at`); err != nil {
		return fmt.Errorf("make attempts due: %w", err)
	}
	return nil
}

func deleteRecovery(tx *db.Tx, destinationID string) error {
	if _, err := tx.Exec(`DELETE FROM webhook_recoveries WHERE destination_id = $1`, destinationID); err != nil {
		return fmt.Errorf("delete recovery: %w", err)
	}
	return nil
}

// Recovering returns some destinations with a recovery, from all organizations, in the order of their
// ids after the given one.
func (s *Store) Recovering(ctx context.Context, after string) ([]string, error) {
	some, err := db.Collect(s.DB.Read(ctx), db.Value[string], `SELECT destination_id FROM webhook_recoveries
		WHERE destination_id > $1 ORDER BY destination_id LIMIT 100`, after)
	if err != nil {
		return nil, fmt.Errorf("list recoveries: %w", err)
	}
	return some, nil
}

// ContinueRecovery makes a destination's next attempts due, and reports whether there are more. It
// does nothing while enough are due, or if another process is doing so. It ends the recovery if the destination was deleted or
// disabled.
func (s *Store) ContinueRecovery(ctx context.Context, destinationID string) (more bool, err error) {
	q := s.DB.Read(ctx)
	due, err := s.dueRetries(q, destinationID)
	if err != nil {
		return false, err
	}
	if due == RecoverBatch { // no transaction only to find that out
		if enabled, err := isEnabled(q, destinationID); enabled || err != nil {
			return enabled, err
		}
	}
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		more = false
		r := recovery{destinationID: destinationID}
		err := tx.Row(`SELECT rate, started_at, next_due, to_due, to_key FROM webhook_recoveries WHERE destination_id = $1`+
			db.SkipLocked(tx.Dialect()), destinationID).Scan(&r.rate, &r.startedAt, &r.nextDue, &r.toDue, &r.toKey)
		if errors.Is(err, db.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read recovery: %w", err)
		}
		enabled, err := isEnabled(tx, destinationID)
		if err != nil {
			return err
		}
		if !enabled {
			return deleteRecovery(tx, destinationID)
		}
		_, done, err := s.recoverBatch(tx, r)
		more = !done
		return err
	})
	return more, err
}

// isEnabled reports whether a destination exists and is not disabled.
func isEnabled(q db.Querier, destinationID string) (enabled bool, err error) {
	err = q.Row(`SELECT NOT disabled FROM webhook_destinations WHERE id = $1`, destinationID).Scan(&enabled)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read destination: %w", err)
	}
	return enabled, nil
}
