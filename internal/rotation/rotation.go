// Package rotation re-encrypts all sealed values of a database with the current master key, and knows which
// master keys were replaced.
//
// It owns the tables master_keys and master_key_progress. A process that starts calls Admit, which refuses a
// replaced key. A rotation is a series of calls of Step, each of which does a part and stores how far it
// came, so that any process with the same key can continue. Step reads the rows of each of the sources in the
// order of their primary key, seals again what is sealed with another key, and writes it unless it was
// changed meanwhile. Passes over all rows are repeated until one finds nothing to do. Then the other keys are
// retired.
//
// Nothing may be sealed with another key meanwhile: Step returns an error as long as a process is alive that
// does not seal with the current one, and Admit refuses to start others.
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
	// maxRows and maxBytes bound a batch, which is in memory and is one transaction. A single row may be larger.
	maxRows  = 500
	maxBytes = 4 << 20
	// maxPasses is the number of passes after which something must still be sealing with another key.
	maxPasses = 10
	// countTimeout bounds the time that counting the rows of all tables takes.
	countTimeout = 10 * time.Second
)

// Process is a process that is alive.
type Process struct {
	ID string `json:"id"`
	// KeyID is the master key that it seals with, or "" if its version does not tell.
	KeyID string `json:"key_id"`
}

// Rotation re-encrypts with the current key of a ring.
type Rotation struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
	// Alive returns the processes that are alive.
	Alive func(q db.Querier) ([]Process, error)
}

// Request says how a step is done.
type Request struct {
	// Start begins a rotation that was completed again, from the first row.
	Start bool `json:"start"`
	// SkipUnreadable leaves values as they are that none of the keys opens.
	SkipUnreadable bool `json:"skip_unreadable"`
	// For is how long the step may take, besides the batch that it has begun.
	For time.Duration `json:"for"`
}

// Progress is how far a rotation is.
type Progress struct {
	KeyID  string  `json:"key_id"`
	Done   bool    `json:"done"`
	Tables []Table `json:"tables"`
}

// Table is how far a rotation is in a table.
type Table struct {
	Name string `json:"table"`
	// Pass is the number of the pass over all tables, from 1 on.
	Pass int64 `json:"pass"`
	Done bool  `json:"done"`
	// Total is the number of rows at the beginning, or 0 if it is not known. Scanned is how many of them the
	// pass has read.
	Total   int64 `json:"total"`
	Scanned int64 `json:"scanned"`
	// Resealed is the number of values that were re-encrypted, and Unreadable of those that no key opens.
	Resealed   int64 `json:"resealed"`
	Unreadable int64 `json:"unreadable"`

	source   source
	stale    int64 // values of the pass that were sealed with another key
	position string
}

// Step does a part of the rotation and returns how far it is; if it was not begun, it begins it. Several
// processes may do so at the same time. It returns Conflict if a process is alive that seals with another
// key, and if values cannot be opened.
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

// Rows returns how many rows the pass has read, of how many. Rows that were added meanwhile, or not counted, are
// known when they are read.
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

// sums returns the numbers of stale and unreadable values of the pass.
func (p Progress) sums() (stale, unreadable int64) {
	for _, t := range p.Tables {
		stale += t.stale
		unreadable += t.Unreadable
	}
	return stale, unreadable
}

// missing returns the sources that the progress has no table of: the rotation has just begun, or an earlier
// version began it.
func (p Progress) missing() []source {
	var missing []source
	for _, s := range sources() {
		if !slices.ContainsFunc(p.Tables, func(t Table) bool { return t.Name == s.table }) {
			missing = append(missing, s)
		}
	}
	return missing
}

// addTables counts the rows of sources and adds them to the progress.
func (r *Rotation) addTables(ctx context.Context, missing []source) error {
	counting, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	totals := make([]int64, len(missing))
	for i, s := range missing {
		totals[i] = s.count(counting, r.DB)
	}
	return r.DB.Write(ctx, func(tx *db.Tx) error { return r.insertProgress(tx, missing, totals) })
}

// count returns the number of rows of a table, or 0 if counting them takes too long.
func (s source) count(ctx context.Context, d *db.DB) int64 {
	query := `SELECT count(*) FROM ` + s.table
	if s.where != "" {
		query += ` WHERE ` + s.where
	}
	var n int64
	if err := d.Read(ctx).Row(query).Scan(&n); err != nil {
		return 0 // it is for people
	}
	return n
}

// endPass completes the rotation after a pass that found nothing to do, and begins another pass otherwise.
func (r *Rotation) endPass(ctx context.Context, p Progress, skip bool) error {
	stale, unreadable := p.sums()
	if stale == 0 && (unreadable == 0 || skip) {
		return r.DB.Write(ctx, r.finish)
	}
	pass := int64(0)
	for _, t := range p.Tables {
		pass = max(pass, t.Pass) // that of a table which was added later is less
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
			"STEWARD_OLD_MASTER_KEYS, or leave them as they are with --skip-unreadable", unreadable, p.unreadable())
	}
	return nil
}

// unreadable returns the names of the tables with values that cannot be opened.
func (p Progress) unreadable() string {
	var names []string
	for _, t := range p.Tables {
		if t.Unreadable > 0 {
			names = append(names, t.Name)
		}
	}
	return strings.Join(names, ", ")
}

// Status is what is known of the master keys.
type Status struct {
	// KeyID is the master key of the process that answers.
	KeyID     string    `json:"key_id"`
	Keys      []Key     `json:"keys"`
	Processes []Process `json:"processes"`
	// Rotation is how far the re-encryption with the key is. It has no tables if it was not begun.
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

// Status returns what is known of the master keys.
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
