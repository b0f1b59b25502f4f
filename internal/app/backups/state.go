package backups

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"steward/internal/backup"
	"steward/internal/db"
	"steward/internal/stamp"
)

// State is how the backups at a schedule are doing.
type State struct {
	// SetAt is when the schedule was first seen.
	SetAt stamp.Time
	// BeganAt and SucceededAt are of the last backup that succeeded. They are nil before the first one.
	BeganAt, SucceededAt *stamp.Time
	// Bytes is how much that backup wrote, and Elsewhere how many databases and key-value stores it has not,
	// because their files are in the data directories of other nodes.
	Bytes, Elsewhere int64
	// FailedAt is when a backup last failed, and Failures how many did since the last success.
	FailedAt *stamp.Time
	Failures int
	// Error says why the last backup failed, or why older ones were not removed; "" if all went well.
	Error string
}

// maxSkew is how far in the future a time of another replica may be. One beyond it was stored when a clock
// was wrong.
const maxSkew = time.Hour

// due returns when a backup is due by the schedule alone.
func (s State) due(schedule backup.Schedule, now time.Time) time.Time {
	if s.BeganAt == nil {
		return notAfter(s.SetAt, now, schedule.First)
	}
	return notAfter(*s.BeganAt, now, schedule.Next)
}

// next returns when a backup is made next: when it is due, or tried again.
func (s State) next(schedule backup.Schedule, now time.Time) time.Time {
	if s.Failures == 0 || s.FailedAt == nil {
		return s.due(schedule, now)
	}
	return notAfter(*s.FailedAt, now, func(failed time.Time) time.Time { return schedule.Retry(failed, s.Failures) })
}

// notAfter applies f to a time, or returns now if the time is in the future.
func notAfter(at stamp.Time, now time.Time, f func(time.Time) time.Time) time.Time {
	if at.Std().After(now.Add(maxSkew)) {
		return now
	}
	return f(at.Std())
}

// rowID returns the key of the row: the first backup to another target does not wait for the next time.
func (p *Periodic) rowID() string {
	sum := sha256.Sum256([]byte(p.Target))
	return hex.EncodeToString(sum[:8])
}

// State returns how the backups to the target are doing. The first call ever stores that the schedule was set.
func (p *Periodic) State(ctx context.Context) (State, error) {
	s, err := p.read(ctx)
	if !errors.Is(err, db.ErrNoRows) {
		return s, err
	}
	if _, err := p.Source.DB.Exec(ctx, `INSERT INTO backup_schedule (id, set_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`,
		p.rowID(), stamp.Of(p.Source.Now())); err != nil {
		return State{}, fmt.Errorf("store the schedule of backups: %w", err)
	}
	return p.read(ctx)
}

func (p *Periodic) read(ctx context.Context) (s State, err error) {
	err = p.Source.DB.Read(ctx).Row(`SELECT set_at, began_at, succeeded_at, bytes, elsewhere, failed_at, failures, error
		FROM backup_schedule WHERE id = $1`, p.rowID()).
		Scan(&s.SetAt, &s.BeganAt, &s.SucceededAt, &s.Bytes, &s.Elsewhere, &s.FailedAt, &s.Failures, &s.Error)
	if err != nil {
		return State{}, fmt.Errorf("read the state of backups: %w", err)
	}
	return s, nil
}

// succeeded stores a backup that was made, and why older ones were not removed, or "".
func (p *Periodic) succeeded(ctx context.Context, m made, problem string) error {
	if _, err := p.Source.DB.Exec(ctx, `UPDATE backup_schedule SET began_at = $2, succeeded_at = $3, bytes = $4, elsewhere = $5,
		failures = 0, error = $6 WHERE id = $1`,
		p.rowID(), stamp.Of(m.began), stamp.Of(p.Source.Now()), m.bytes, m.elsewhere, problem); err != nil {
		return fmt.Errorf("store the state of backups: %w", err)
	}
	return nil
}

// failed stores why a backup was not made.
func (p *Periodic) failed(ctx context.Context, problem string) error {
	if _, err := p.Source.DB.Exec(ctx, `UPDATE backup_schedule SET failed_at = $2, failures = failures + 1, error = $3
		WHERE id = $1`, p.rowID(), stamp.Of(p.Source.Now()), problem); err != nil {
		return fmt.Errorf("store the state of backups: %w", err)
	}
	return nil
}
