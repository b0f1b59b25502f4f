// Package rotation re-encrypts all sealed values in a database with the current master key, and knows
// which master keys were replaced.
//
// It owns the tables master_keys and master_key_progress. A starting process calls Admit, which
// refuses a replaced key. A rotation is a series of Step calls. Each does a part and saves its
// progress, so that any process with the same key can continue. Step reads each source's rows in
// primary key order, seals values again that are sealed with another key, and writes them unless
// somebody changed them in the meantime. It makes passes over all rows until one finds nothing to do.
// Then it retires the other keys.
//
// Nobody may seal with another key during a rotation. Step returns an error while any live process
// seals with a key other than the current one, and Admit does not let more of them start.
package rotation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/seal"
	"steward/internal/stamp"
)

const (
	// maxRows and maxBytes bound a batch, which is in memory and is one transaction. A single row may
	// be larger.
	maxRows  = 500
	maxBytes = 4 << 20
	// If maxPasses passes were not enough, something must still be sealing with another key.
	maxPasses = 10
	// countTimeout bounds the time for counting all tables' rows.
	countTimeout = 10 * time.Second
)

// Process is a live process.
type Process struct {
	ID string `json:"id"`
	// KeyID is the master key that it seals with, or "" if its version does not report it.
	KeyID string `json:"key_id"`
}

// Rotation re-encrypts with a ring's current key.
type Rotation struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
	// Alive returns the live processes.
	Alive func(q db.Querier) ([]Process, error)
}

// Request has a step's options.
type Request struct {
	// Start begins a completed rotation again, from the first row.
	Start bool `json:"start"`
	// SkipUnreadable leaves values alone that none of the keys opens.
	SkipUnreadable bool `json:"skip_unreadable"`
	// For bounds the step's time. It finishes the batch that it has begun.
	For time.Duration `json:"for"`
}

// Progress is a rotation's progress.
type Progress struct {
	KeyID  string  `json:"key_id"`
	Done   bool    `json:"done"`
	Tables []Table `json:"tables"`
}

// Table is a rotation's progress in one table.
type Table struct {
	Name string `json:"table"`
	// Pass is the number of the pass over all tables, from 1.
	Pass int64 `json:"pass"`
	Done bool  `json:"done"`
	// Total is the number of rows at the start, or 0 if unknown. Scanned is the number of rows this
	// pass has read.
	Total   int64 `json:"total"`
	Scanned int64 `json:"scanned"`
	// Resealed counts the values that we re-encrypted, and Unreadable those that no key opens.
	Resealed   int64 `json:"resealed"`
	Unreadable int64 `json:"unreadable"`

	source   source
	stale    int64 // this pass's values that were sealed with another key
	position string
}

// Step does a part of the rotation and returns its progress. The first call begins the rotation.
// Several processes may call it at the same time. It returns Conflict if a live process seals with
// another key, or if values cannot be opened.
func (r *Rotation) Step(ctx context.Context, in Request) (Progress, error) {
	ctx = db.Long(ctx)
	deadline := time.Now().Add(in.For)
	if err := r.DB.Write(ctx, func(tx *db.Tx) error { return r.begin(tx, in.Start) }); err != nil {
		return Progress{}, err
	}
	for {
		p, err := r.progress(ctx)
		if err != nil || p.Done {
			return p, err
		}
		if missing := p.missing(); len(missing) > 0 {
			if err := r.addTables(ctx, missing); err != nil {
				return Progress{}, err
			}
			continue
		}
		next, found := p.next()
		if !found {
			if err := r.endPass(ctx, p, in.SkipUnreadable); err != nil {
				return Progress{}, err
			}
			continue
		}
		err = r.batches(ctx, next, deadline)
		if err != nil && !errors.Is(err, errMoved) {
			return Progress{}, err
		}
		if time.Now().After(deadline) {
			return r.progress(ctx)
		}
	}
}

// Rows returns the number of rows this pass has read, and the total. Rows that were added later or not
// counted join the total when we read them.
func (p Progress) Rows() (scanned, total int64) {
	for _, t := range p.Tables {
		scanned += t.Scanned
		total += max(t.Total, t.Scanned)
	}
	return scanned, total
}

// next returns the first table that the pass has not completed.
func (p Progress) next() (Table, bool) {
	for _, t := range p.Tables {
		if !t.Done {
			return t, true
		}
	}
	return Table{}, false
}

// missing returns the sources that the progress lacks, because the rotation has just begun or an
// earlier version began it.
func (p Progress) missing() []source {
	var missing []source
	for _, s := range sources() {
		if !slices.ContainsFunc(p.Tables, func(t Table) bool { return t.Name == s.table }) {
			missing = append(missing, s)
		}
	}
	return missing
}

// addTables counts the sources' rows and adds them to the progress.
func (r *Rotation) addTables(ctx context.Context, missing []source) error {
	counting, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	totals := make([]int64, len(missing))
	for i, s := range missing {
		query := `SELECT count(*) FROM ` + s.table
		if s.where != "" {
			query += ` WHERE ` + s.where
		}
		if err := r.DB.Read(counting).Row(query).Scan(&totals[i]); err != nil {
			totals[i] = 0 // it took too long; the total is only for display
		}
	}
	return r.DB.Write(ctx, func(tx *db.Tx) error { return r.insertProgress(tx, missing, totals) })
}

// endPass completes the rotation if the pass found nothing to do. If it did, endPass begins another
// pass.
func (r *Rotation) endPass(ctx context.Context, p Progress, skip bool) error {
	pass, stale, unreadable := int64(0), int64(0), int64(0)
	var names []string // of tables with values that cannot be opened
	for _, t := range p.Tables {
		pass = max(pass, t.Pass) // a table that was added later has a lower one
		stale += t.stale
		unreadable += t.Unreadable
		if t.Unreadable > 0 {
			names = append(names, t.Name)
		}
	}
	if stale == 0 && (unreadable == 0 || skip) {
		return r.DB.Write(ctx, r.finish)
	}
	if err := r.DB.Write(ctx, func(tx *db.Tx) error { return r.insertPass(tx, pass+1) }); err != nil {
		return err
	}
	switch {
	case stale > 0 && pass >= maxPasses:
		return errs.New(errs.Conflict, "values are still being encrypted with another master key than %s; "+
			"stop the process that does so, and run the command again", r.Ring.KeyID())
	case stale == 0 && unreadable > 0:
		return errs.New(errs.Conflict, "%d values cannot be decrypted with any of the configured keys (%s); name their key in "+
			"STEWARD_OLD_MASTER_KEYS, or leave them as they are with --skip-unreadable", unreadable, strings.Join(names, ", "))
	}
	return nil
}

// Status has the known facts about the master keys.
type Status struct {
	// KeyID is the responding process's master key.
	KeyID     string    `json:"key_id"`
	Keys      []Key     `json:"keys"`
	Processes []Process `json:"processes"`
	// Rotation is the progress of re-encrypting with this key. It has no tables before the rotation
	// begins.
	Rotation Progress `json:"rotation"`
}

// Key is a master key that was used.
type Key struct {
	ID         string      `json:"id"`
	UsedAt     stamp.Time  `json:"used_at"`
	RotationAt *stamp.Time `json:"rotation_at,omitempty"`
	RotatedAt  *stamp.Time `json:"rotated_at,omitempty"`
	RetiredAt  *stamp.Time `json:"retired_at,omitempty"`
}

// Status returns the known facts about the master keys.
func (r *Rotation) Status(ctx context.Context) (Status, error) {
	s := Status{KeyID: r.Ring.KeyID()}
	err := r.DB.Snapshot(ctx, func(q db.Querier) (err error) {
		if s.Keys, err = keys(q); err != nil {
			return err
		}
		if s.Processes, err = r.Alive(q); err != nil {
			return err
		}
		s.Rotation, err = r.progressOf(q)
		return err
	})
	return s, err
}
