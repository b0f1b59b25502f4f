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

// State tells how the scheduled backups are doing.
type State struct {
	// SetAt is when the schedule was first seen.
	SetAt stamp.Time
	// BeganAt and SucceededAt belong to the last successful backup. They are nil before the first
	// one.
	BeganAt, SucceededAt *stamp.Time
	// Bytes is that backup's size. Elsewhere counts the databases and key-value stores that it
	// lacks, because their files are in other nodes' data directories.
	Bytes, Elsewhere int64
	// FailedAt is when a backup last failed, and Failures counts the failures since the last
	// success.
	FailedAt *stamp.Time
	Failures int
	// Error says why the last backup failed, or why we could not remove older ones; "" if all went
	// well.
	Error string
}

// maxSkew bounds how far another replica's time may be in the future. If it is further, a wrong
// clock stored it.
const maxSkew = time.Hour

// due returns when a backup is due by the schedule alone.
func (s State) due(schedule backup.Schedule, now time.Time) time.Time {
	if s.BeganAt == nil {
		return notAfter(s.SetAt, now, schedule.First)
	}
	return notAfter(*s.BeganAt, now, schedule.Next)
}

// next returns when we make the next backup: when it is due, or when we try again.
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

// rowID returns the row's key. It depends on the target, so that the first backup to a new target
// does not wait for the next time.
func (p *Periodic) rowID() string {
	sum := sha256.Sum256([]byte(p.Target))
	return hex.EncodeToString(sum[:8])
}

// State returns the state of the backups to the target. The first call ever stores that the schedule
// was set.
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

// succeeded stores a new backup, and why we could not remove older ones, or "".
func (p *Periodic) succeeded(ctx context.Context, m made, problem string) error {
	if _, err := p.Source.DB.Exec(ctx, `UPDATE backup_schedule SET began_at = $2, succeeded_at = $3, bytes = $4, elsewhere = $5,
		failures = 0, error = $6 WHERE id = $1`,
		p.rowID(), stamp.Of(m.began), stamp.Of(p.Source.Now()), m.bytes, m.elsewhere, problem); err != nil {
		return fmt.Errorf("store the state of backups: %w", err)
	}
	return nil
}

// failed stores why a backup failed.
func (p *Periodic) failed(ctx context.Context, problem string) error {
	if _, err := p.Source.DB.Exec(ctx, `UPDATE backup_schedule SET failed_at = $2, failures = failures + 1, error = $3
		WHERE id = $1`, p.rowID(), stamp.Of(p.Source.Now()), problem); err != nil {
		return fmt.Errorf("store the state of backups: %w", err)
	}
	return nil
}
