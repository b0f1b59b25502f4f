// Package move copies all rows from one database to another, which may be of the other kind, while
// the first is in use.
//
// Begin creates a log for each source table, in which triggers record the keys of changed rows
// (log.go), and closes the target to others. Copy copies all tables page by page, and stores each
// page together with its progress, so that it can resume after an interruption. If rows refer to
// bytes elsewhere, Mover.Before copies those first. Follow reads the logs and brings the logged rows
// up to date in the target, or deletes them, and reads back its own writes to compare them. Verify
// compares each source row with the target's, and the target's keys with the source's; rows that
// differ may have changed meanwhile, so Finish compares them again.
//
// You call Finish once nobody writes to the source any more. On PostgreSQL it first makes the server
// refuse changes to the source (fence.go), since a frozen replica may wake up at any time. Then it
// follows to the end, compares the remaining rows, marks the source as moved, and opens the target.
// Both databases know which Mover moves the rows (owner.go), so that one that froze, and was
// replaced, changes nothing.
package move

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"steward/internal/db"
	"steward/internal/db/tablecopy"
)

const (
	// page caps the changes that we read together, and the rows that we copy together. pageBytes is
	// roughly their total size.
	page      = 2000
	pageBytes = 4 << 20
	// maxSuspects caps a table's rows that differ in the first comparison.
	maxSuspects = 100_000
	// keyMoving is the key in the source's meta for the move's id, and keyMoved for the rows' new
	// place.
	keyMoving = "moving"
	keyMoved  = "moved"
	// keyOwner is the key in meta for the Mover that moves the rows.
	keyOwner = "moving_owner"
	// keyStore is the key in the target's meta for Mover.Store.
	keyStore = "moved_store"
	// followInterval limits how long changes pile up in the logs while we copy rows.
	followInterval = 10 * time.Second
)

// ErrChanged is returned if the target's rows differ from the source's.
var ErrChanged = errors.New("the target does not have the rows of the source")

// Progress tells how far a move has come.
type Progress struct {
	// Stage is copy, follow, verify or finish.
	Stage string
	// Table is being copied or compared, and Rows of its rows are done. In the follow stage, Rows
	// counts the changes that this Round (from 1) has copied in all tables, and Left estimates the
	// ones still to copy.
	Table       string
	Rows        int64
	Round, Left int64
}

// Mover moves rows. Do not change its fields after Begin.
type Mover struct {
	Source, Target *db.DB
	// FromNode and ToNode are the databases' names for this process's data directory, whose
	// resources stay there.
	FromNode, ToNode string
	// Report receives the progress.
	Report func(Progress)
	// Before gets the source's rows, as they will be in the target, before we write them there. If
	// it returns an error, it gets them again when the move resumes. It may be nil.
	Before func(ctx context.Context, t tablecopy.Table, rows []tablecopy.Row) error
	// Store names the store that Before copies to, or is empty. The target remembers it.
	Store string

	tables []*table
	// owner is this Mover's name in the databases.
	owner string
	// followed is when we last followed the changes.
	followed time.Time
	// rounds counts the rounds that have followed the changes.
	rounds int64
}

// table is a source table.
type table struct {
	tablecopy.Table
	// target is the target's table, with the columns in the same order.
	target tablecopy.Table
	// log is the table with the changed rows' keys: its columns are seq and the primary key's.
	log string
	// limit caps the rows that we copy together: fewer if they are large.
	limit int
	// suspects has the keys of rows that differed in a comparison.
	suspects [][]any
}

// Begin prepares the source and the target, or resumes the move with this id. The target must be
// empty, except for rows that this move has copied.
func (m *Mover) Begin(ctx context.Context, id string) error {
	m.owner = rand.Text()
	if err := m.checkMoved(ctx, id); err != nil {
		return err
	}
	for _, name := range tablecopy.Tables() {
		t, err := tablecopy.Open(m.Source.Read(ctx), name)
		if err != nil {
			return err
		}
		target, err := tablecopy.Open(m.Target.Read(ctx), name)
		if err != nil {
			return err
		}
		if target, err = target.With(t.Names()); err != nil {
			return err
		}
		m.tables = append(m.tables, &table{Table: t, target: target, log: logName(name), limit: page / 10})
	}
	m.followed = time.Now()
	if err := m.beginTarget(ctx, id); err != nil {
		return err
	}
	return m.beginSource(ctx, id)
}

// Copy copies the remaining tables.
func (m *Mover) Copy(ctx context.Context) error {
	for _, t := range m.tables {
		if err := m.copyTable(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

func (m *Mover) copyTable(ctx context.Context, t *table) error {
	done, err := m.copied(ctx, t)
	if err != nil || done.Complete {
		return err
	}
	for !done.Complete {
		next, err := m.read(ctx, t, done.after)
		if err != nil {
			return err
		}
		done.Complete = next.last
		done.Rows += int64(len(next.rows))
		if len(next.rows) > 0 {
			done.after = t.KeyOf(next.rows[len(next.rows)-1])
		}
		rows := m.changed(t, next.rows)
		if err := m.before(ctx, t, rows); err != nil {
			return err
		}
		err = m.writeTarget(ctx, func(tx *db.Tx) error {
			if err := t.target.Replace(tx, rows); err != nil {
				return err
			}
			return done.store(tx, t)
		})
		if err != nil {
			return fmt.Errorf("copy %s: %w", t.Name, err)
		}
		m.report("copy", t.Name, done.Rows)
		if time.Since(m.followed) < followInterval {
			continue
		}
		// The copy may take hours if Before copies bytes. Rows not copied yet are copied again.
		if err := m.Follow(ctx); err != nil {
			return err
		}
		m.followed = time.Now()
	}
	return nil
}

// before calls Before with a table's rows.
func (m *Mover) before(ctx context.Context, t *table, rows []tablecopy.Row) error {
	if m.Before == nil || len(rows) == 0 {
		return nil
	}
	return m.Before(ctx, t.Table, rows)
}

// rowsRead has rows from the source. last is true if there are no more.
type rowsRead struct {
	rows []tablecopy.Row
	last bool
}

// read returns the rows after a key, limited to a bounded amount of memory.
func (m *Mover) read(ctx context.Context, t *table, after []any) (rowsRead, error) {
	limit := t.limit
	p, err := t.Page(m.Source.Read(db.ForCopy(ctx)), after, limit)
	if err != nil {
		return rowsRead{}, err
	}
	if n := len(p.Rows); n > 0 {
		t.limit = min(max(pageBytes*n/p.Bytes, 1), page)
	}
	return rowsRead{rows: p.Rows, last: p.Complete && len(p.Rows) < limit}, nil
}

// changed adapts the source's rows to the target: it drops rows about the move, and renames this
// data directory in its resources.
func (m *Mover) changed(t *table, rows []tablecopy.Row) []tablecopy.Row {
	for _, r := range rows {
		tablecopy.Convert(t.target.Columns, r)
	}
	switch t.Name {
	case "meta":
		return slices.DeleteFunc(rows, func(r tablecopy.Row) bool { return ofMove(t.KeyOf(r)) })
	case "resources":
		i := slices.Index(t.Names(), "node")
		for _, r := range rows {
			if r[i] == m.FromNode {
				r[i] = m.ToNode
			}
		}
	}
	return rows
}

// ofMove reports whether a key in meta is about a move or a restore.
func ofMove(key []any) bool {
	return slices.Contains(keysOfMove(), key[0])
}

// keysOfMove returns the keys in meta that are about a move or a restore.
func keysOfMove() []any { return []any{keyMoving, keyMoved, keyOwner, keyStore, "restoring"} }

// Follow copies changes until few are left, or until their number stops falling because others write
// as fast. Finish copies the rest.
func (m *Mover) Follow(ctx context.Context) error {
	for before := int64(math.MaxInt64); ; {
		n, err := m.round(ctx)
		if err != nil || n < page || n >= before {
			return err
		}
		before = n
	}
}

// round copies the changes that are in the logs when it begins, and returns their number.
func (m *Mover) round(ctx context.Context) (n int64, err error) {
	m.rounds++
	var left int64
	lasts := make([]int64, len(m.tables))
	for i, t := range m.tables {
		first, last, err := t.logged(m.Source.Read(ctx))
		if err != nil {
			return n, err
		}
		lasts[i] = last
		left += last - first
	}
	for i, t := range m.tables {
		for some := page; some == page; {
			if some, err = m.follow(ctx, t, lasts[i]); err != nil {
				return n, fmt.Errorf("follow %s: %w", t.Name, err)
			}
			n += int64(some)
			left = max(left-int64(some), 0)
			if some > 0 && m.Report != nil {
				m.Report(Progress{Stage: "follow", Table: t.Name, Rows: n, Round: m.rounds, Left: left})
			}
		}
	}
	return n, nil
}

// follow copies the current rows for a page of changes, up to the last one. It forgets the changes
// only afterwards, so that an interruption loses none.
func (m *Mover) follow(ctx context.Context, t *table, last int64) (n int, err error) {
	changes, err := t.changes(m.Source.Read(ctx), last)
	if err != nil || len(changes) == 0 {
		return 0, err
	}
	seen := map[string]bool{}
	var keys [][]any
	for _, c := range changes {
		text, err := tablecopy.Line(c.key)
		if err != nil {
			return 0, err
		}
		if !seen[text] && !(t.Name == "meta" && ofMove(c.key)) {
			seen[text] = true
			keys = append(keys, c.key)
		}
	}
	for some := range slices.Chunk(keys, t.limit) {
		if err := m.apply(ctx, t, some); err != nil {
			return 0, err
		}
	}
	return len(changes), m.forget(ctx, t, changes)
}

// apply makes the target's rows with these keys equal to the source's, and compares them. It halves
// the keys if the rows are large.
func (m *Mover) apply(ctx context.Context, t *table, keys [][]any) error {
	var current tablecopy.Page
	// One snapshot for all, so that no two of them have the same value in a unique index.
	err := m.Source.Snapshot(ctx, func(q db.Querier) (err error) {
		current, err = t.Find(q, keys)
		return err
	})
	if err != nil {
		return err
	}
	if half := len(keys) / 2; half > 0 && (!current.Complete || current.Bytes > tablecopy.MaxPage/2) {
		if err := m.apply(ctx, t, keys[:half]); err != nil {
			return err
		}
		return m.apply(ctx, t, keys[half:])
	}
	rows := m.changed(t, current.Rows)
	if err := m.before(ctx, t, rows); err != nil {
		return err
	}
	for _, key := range keys {
		tablecopy.Convert(t.target.KeyColumns(), key)
	}
	err = m.writeTarget(ctx, func(tx *db.Tx) error {
		if err := t.target.Delete(tx, keys); err != nil {
			return err
		}
		return t.target.Replace(tx, rows)
	})
	if err != nil {
		return err
	}
	found, err := t.target.Find(m.Target.Read(ctx), keys)
	if err != nil {
		return err
	}
	different, err := differing(t, rows, found.Rows)
	if err == nil && len(different) > 0 {
		err = fmt.Errorf("%w: %d rows of %s that were just written", ErrChanged, len(different), t.Name)
	}
	return err
}

// Finish ends the move. Nobody may write to the source any more. to tells where the rows are now.
func (m *Mover) Finish(ctx context.Context, to string) error {
	if err := m.fence(ctx); err != nil {
		return err
	}
	if err := m.finish(ctx, to); err != nil {
		return errors.Join(err, unfence(ctx, m.Source, false))
	}
	return nil
}

func (m *Mover) finish(ctx context.Context, to string) error {
	for n := int64(1); n > 0; {
		var err error
		if n, err = m.round(ctx); err != nil {
			return err
		}
	}
	for _, t := range m.tables {
		if err := m.compareSuspects(ctx, t); err != nil {
			return err
		}
	}
	number, err := db.NextNumber(m.Source.Read(ctx))
	if err != nil {
		return err
	}
	// This order never lets both databases be served: after an interruption, you call Finish again.
	if err := m.markSource(ctx, to); err != nil {
		return err
	}
	if err := m.endTarget(ctx, number); err != nil {
		return err
	}
	return m.removeLogs(ctx)
}

// Count returns the number of rows in the target.
func (m *Mover) Count(ctx context.Context) (rows int64, err error) {
	for _, t := range m.tables {
		n, err := count(m.Target.Read(db.ForCopy(ctx)), t)
		if err != nil {
			return 0, err
		}
		rows += n
	}
	return rows, nil
}

// count counts a table's rows, except for those about the move.
func count(q db.Querier, t *table) (n int64, err error) {
	text := "SELECT count(*) FROM " + t.Name
	var args []any
	if t.Name == "meta" {
		text += " WHERE key NOT IN ($1, $2, $3, $4, $5)"
		args = keysOfMove()
	}
	if err := q.Row(text, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count %s: %w", t.Name, err)
	}
	return n, nil
}

func (m *Mover) report(stage, name string, rows int64) {
	if m.Report != nil {
		m.Report(Progress{Stage: stage, Table: name, Rows: rows})
	}
}
