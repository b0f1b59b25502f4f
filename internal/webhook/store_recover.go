package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

// laterText lists the waiting attempts of a destination after a place, in the order in which they are
// due.
const laterText = ` FROM webhook_queue WHERE destination_id = $1 AND retries > 0 AND (due_at, key) > ($2, $3)
	ORDER BY due_at, key LIMIT `

// countWaiting returns how many attempts of a destination wait and are not due yet, up to maxRecovered.
// It returns NotFound.
func (s *Store) countWaiting(ctx context.Context, orgID, webhookID, destinationID string) (n int64, err error) {
	q := s.DB.Read(ctx)
	if _, err := findDestination(q, orgID, webhookID, destinationID); err != nil {
		return 0, err
	}
	if err := q.Row(`SELECT count(*) FROM (SELECT 1`+laterText+strconv.Itoa(maxRecovered)+`) AS waiting`,
		destinationID, stamp.Of(s.Now()), afterAll).Scan(&n); err != nil {
		return 0, fmt.Errorf("count waiting attempts: %w", err)
	}
	return n, nil
}

// findDestination reports whether a destination of a webhook is disabled. It returns NotFound.
func findDestination(q db.Querier, orgID, webhookID, destinationID string) (disabled bool, err error) {
	if _, err := get(q, orgID, webhookID); err != nil {
		return false, err
	}
	err = q.Row(`SELECT disabled FROM webhook_destinations WHERE org_id = $1 AND webhook_id = $2 AND id = $3`,
		orgID, webhookID, destinationID).Scan(&disabled)
	if errors.Is(err, db.ErrNoRows) {
		return false, errs.Missing("destination", destinationID)
	}
	if err != nil {
		return false, fmt.Errorf("read destination: %w", err)
	}
	return disabled, nil
}

// Recover makes the waiting attempts of a destination due: the first at once and so many per second, or
// all now if rate is 0. It returns how many of them it found in one batch, and whether those are all; if
// not, the others follow in the background. It returns NotFound, or Conflict if the destination is
// disabled.
func (s *Store) Recover(
	ctx context.Context, orgID, webhookID, destinationID string, rate int64,
) (n int64, done bool, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		disabled, err := findDestination(tx, orgID, webhookID, destinationID)
		if err != nil {
			return err
		}
		if disabled {
			return errs.New(errs.Conflict, "the destination is disabled")
		}
		r := newRecovery(destinationID, rate, stamp.Of(s.Now()))
		if err := r.insert(tx); err != nil {
			return err
		}
		if n, done, err = s.recoverBatch(tx, r); err != nil {
			return err
		}
		return s.Audit(tx, "webhook.destination-recover", destinationID)
	})
	return n, done, err
}

// insert stores a recovery, in place of one that is not at its end. The row is locked before those of the
// queue are, by everybody.
func (r recovery) insert(tx *db.Tx) error {
	if _, err := tx.Exec(`INSERT INTO webhook_recoveries (destination_id, rate, started_at, next_due, to_due, to_key)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (destination_id) DO UPDATE SET rate = excluded.rate,
		started_at = excluded.started_at, next_due = excluded.next_due, to_due = excluded.to_due, to_key = excluded.to_key`,
		r.destinationID, r.rate, r.startedAt, r.nextDue, r.toDue, r.toKey); err != nil {
		return fmt.Errorf("insert recovery: %w", err)
	}
	return nil
}

// recoverBatch makes the next attempts of a recovery due, and stores how far it is; at its end the row
// goes. It returns how many attempts it found.
func (s *Store) recoverBatch(tx *db.Tx, r recovery) (n int64, done bool, err error) {
	rows, err := db.Collect(tx, func(row db.Row) (w waitingRow, err error) {
		return w, row.Scan(&w.key, &w.due, &w.date)
	}, `SELECT key, due_at, date`+laterText+strconv.Itoa(recoverBatch), r.destinationID, r.toDue, r.toKey)
	if err != nil {
		return 0, false, fmt.Errorf("read waiting attempts: %w", err)
	}
	if err := setDue(tx, r.advance(rows, stamp.Of(s.Now()))); err != nil {
		return 0, false, err
	}
	tx.OnCommit(func() { s.wake([]string{r.destinationID}) })
	done = len(rows) < recoverBatch
	if done {
		return int64(len(rows)), true, deleteRecovery(tx, r.destinationID)
	}
	if _, err := tx.Exec(`UPDATE webhook_recoveries SET next_due = $2, to_due = $3, to_key = $4 WHERE destination_id = $1`,
		r.destinationID, r.nextDue, r.toDue, r.toKey); err != nil {
		return 0, false, fmt.Errorf("store recovery: %w", err)
	}
	return int64(len(rows)), false, nil
}

// setDue sets the due times of waiting attempts, in the order of their keys. Those that have ended or are
// due earlier stay as they are.
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

// recovering returns some destinations of all organizations that are being recovered, in the order of
// their ids after one.
func (s *Store) recovering(ctx context.Context, after string) ([]string, error) {
	some, err := db.Collect(s.DB.Read(ctx), db.Value[string], `SELECT destination_id FROM webhook_recoveries
		WHERE destination_id > $1 ORDER BY destination_id LIMIT 100`, after)
	if err != nil {
		return nil, fmt.Errorf("list recoveries: %w", err)
	}
	return some, nil
}

// continueRecovery makes the next attempts of a destination due, and reports whether there are more. It
// does nothing if another process is doing that. The recovery of a destination that was deleted or
// disabled ends.
func (s *Store) continueRecovery(ctx context.Context, destinationID string) (more bool, err error) {
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
		exists, disabled, err := destinationState(tx, destinationID)
		if err != nil {
			return err
		}
		if !exists || disabled {
			return deleteRecovery(tx, destinationID)
		}
		_, done, err := s.recoverBatch(tx, r)
		more = !done
		return err
	})
	return more, err
}
