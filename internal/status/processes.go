package status

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"steward/internal/db"
	"steward/internal/disk"
	"steward/internal/stamp"
)

const (
	// A process writes a heartbeat every heartbeatEvery, and each counts for aliveFor.
	heartbeatEvery = 10 * time.Second
	aliveFor       = 30 * time.Second
	// After forgetAfter we delete a dead process's row.
	forgetAfter = time.Hour
	// started is the topic on which processes tell each other that they run.
	started = "status.process"
	// endTimeout bounds a stopping process's last write.
	endTimeout = 5 * time.Second
)

// Processes counts the processes that serve a database. SQLite has one, which needs no row.
type Processes struct {
	DB  *db.DB
	Now func() time.Time
	Log *slog.Logger
	// ID names this process.
	ID string
	// KeyID is the master key that this process seals with.
	KeyID string
	// Dir is the data directory.
	Dir string
}

// Process is a live process. KeyID is "" if its version does not report it.
type Process struct{ ID, KeyID string }

// Run writes heartbeats until ctx ends, and then deletes this process's row.
func (p *Processes) Run(ctx context.Context) {
	if p.DB.Dialect() == db.SQLite {
		return
	}
	ticker := time.NewTicker(heartbeatEvery)
	defer ticker.Stop()
	for {
		if err := p.heartbeat(ctx); err != nil && ctx.Err() == nil {
			p.Log.Error("this process is not counted", "error", err)
		}
		select {
		case <-ctx.Done():
			p.end(ctx)
			return
		case <-ticker.C:
		}
	}
}

// heartbeat writes the time and deletes the rows of processes that died long ago, in one round trip.
// Then it looks for other processes, and tells them that this one runs. They will notify it from then
// on, even if it was frozen for a while.
func (p *Processes) heartbeat(ctx context.Context) error {
	err := p.DB.Write(ctx, func(tx *db.Tx) error {
		if err := p.Announce(tx); err != nil {
			return err
		}
		if err := tx.Send(`DELETE FROM processes WHERE id IN (SELECT id FROM processes WHERE seen_at < $1`+
			db.SkipLocked(tx.Dialect())+`)`, stamp.Of(p.Now()).Add(-forgetAfter)); err != nil {
			return fmt.Errorf("forget processes: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	alive, err := p.Count(ctx)
	if alive > 1 {
		p.DB.NoteOthers()
	}
	p.DB.Notify(started)
	return err
}

// Announce writes a heartbeat in a transaction.
func (p *Processes) Announce(tx *db.Tx) error {
	schema, err := db.NewestSchema()
	if err != nil {
		return err
	}
	if err := tx.Send(`INSERT INTO processes (id, seen_at, key_id, schema, disk_free) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, key_id = excluded.key_id, schema = excluded.schema,
			disk_free = COALESCE(excluded.disk_free, processes.disk_free)`,
		p.ID, stamp.Of(p.Now()), p.KeyID, schema, p.free()); err != nil {
		return fmt.Errorf("note process: %w", err)
	}
	return nil
}

// free returns how much of the data directory's volume is free, in percent, or nil if that is unknown.
func (p *Processes) free() *int64 {
	if p.Dir == "" {
		return nil
	}
	percent, err := disk.FreePercent(p.Dir)
	if err != nil {
		return nil
	}
	return &percent
}

// DiskFree returns how much of the fullest volume of a live process is free, in percent, or nil if that
// is unknown.
func (p *Processes) DiskFree(ctx context.Context) (least *int64, err error) {
	if p.DB.Dialect() == db.SQLite {
		return p.free(), nil
	}
	if err := p.DB.Read(ctx).Row(`SELECT MIN(disk_free) FROM processes WHERE seen_at > $1`,
		stamp.Of(p.Now()).Add(-aliveFor)).Scan(&least); err != nil {
		return nil, fmt.Errorf("read the free space of processes: %w", err)
	}
	return least, nil
}

// Alive returns the processes that were alive shortly before now. On SQLite there are none.
func Alive(q db.Querier, now time.Time) ([]Process, error) {
	all, err := db.Collect(q, func(row db.Row) (p Process, err error) { return p, row.Scan(&p.ID, &p.KeyID) },
		`SELECT id, coalesce(key_id, '') FROM processes WHERE seen_at > $1 ORDER BY id`, stamp.Of(now).Add(-aliveFor))
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	return all, nil
}

func (p *Processes) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if _, err := p.DB.Exec(ctx, `DELETE FROM processes WHERE id = $1`, p.ID); err != nil {
		p.Log.Warn("this process is counted for a moment longer", "error", err)
	}
}

// Count returns how many processes are alive. It always includes this one.
func (p *Processes) Count(ctx context.Context) (int, error) {
	if p.DB.Dialect() == db.SQLite {
		return 1, nil
	}
	var others int
	if err := p.DB.Read(ctx).Row(`SELECT count(*) FROM processes WHERE seen_at > $1 AND id <> $2`,
		stamp.Of(p.Now()).Add(-aliveFor), p.ID).Scan(&others); err != nil {
		return 0, fmt.Errorf("count processes: %w", err)
	}
	return 1 + others, nil
}
