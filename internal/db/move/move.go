// Package move copies all rows of a database to another one, which may be of the other kind, while the first
// one is in use.
//
// Data flows through it like this. Begin creates a log of the keys of changed rows for each table of the source,
// which triggers write to (log.go), and closes the target to others. Copy copies all tables page by page,
// each page together with how far it came, so that it goes on there after an interruption. Rows that refer to
// bytes elsewhere have these copied first, by Mover.Before. Follow reads
// the logs and copies the rows with their keys as they are now, or deletes them. Verify compares each row of
// the source with that of the target, and the keys of the target with those of the source; those that
// differ may have changed meanwhile, and are compared again by Finish. What Follow writes it reads again and
// compares. Finish is called when nobody writes to the source any more: it follows to the end, compares what
// is left, marks the source as moved, and opens the target. Before that it has a PostgreSQL server refuse
// changes of the source (fence.go), since a replica that was frozen may go on at any time. Both databases know
// which Mover moves the rows (owner.go), so that one that was frozen, and was replaced, changes nothing.
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
	// page is the number of changes that are read together, and the most rows that are copied together.
	// pageBytes is about how many bytes these should have.
	page      = 2000
	pageBytes = 4 << 20
	// maxSuspects bounds the rows of a table that differ when they are compared first.
	maxSuspects = 100_000
	// keyMoving is the key of meta with the id of the move in the source, and keyMoved that with where the rows
	// are now.
	keyMoving = "moving"
	keyMoved  = "moved"
	// keyOwner is the key of meta with the Mover that moves the rows.
	keyOwner = "moving_owner"
	// keyStore is the key of meta with Mover.Store in the target.
	keyStore = "moved_store"
	// followInterval is how long changes pile up in the logs while rows are copied.
	followInterval = 10 * time.Second
)

// ErrChanged is returned if rows of the target are not those of the source.
var ErrChanged = errors.New("the target does not have the rows of the source")

// Progress is how far a move is.
type Progress struct {
	// Stage is copy, follow, verify or finish.
	Stage string
	// Table is being copied or compared, and Rows is how many rows of it are done. When changes are followed, Rows is how many
	// changes of all tables the Round has copied, which is counted from 1, and Left how many it has to copy yet.
	Table       string
	Rows        int64
	Round, Left int64
}

// Mover moves rows. Its fields must not be changed after Begin.
type Mover struct {
	Source, Target *db.DB
	// FromNode and ToNode are what the databases call the data directory of this process, whose resources stay
	// there.
	FromNode, ToNode string
	// Report is called with the progress.
	Report func(Progress)
	// Before is called with rows of the source, as they will be in the target, before they are written there. If it
	// returns an error, it is called with them again when the move goes on. It may be nil.
	Before func(ctx context.Context, t tablecopy.Table, rows []tablecopy.Row) error
	// Store names the store that Before copies to, or is empty. The target remembers it.
	Store string

	tables []*table
	// owner is what the databases call this Mover.
	owner string
	// followed is when the changes were followed last.
	followed time.Time
	// rounds is how many rounds have followed the changes.
	rounds int64
}

// table is a table of the source.
type table struct {
	tablecopy.Table
	// target is the table of the target, with the columns in the same order.
	target tablecopy.Table
	// log is the table with the keys of changed rows: its columns are seq and those of the primary key.
	log string
	// limit is the number of rows that are copied together: fewer of large ones.
	limit int
	// suspects are the keys of rows that differed when they were compared.
	suspects [][]any
}

// Begin prepares the source and the target, or goes on with the move that id names. The target must be
// empty but for what that move has copied.
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

// Copy copies the tables that are not copied yet.
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
	if err != nil || done.complete {
		return err
	}
	for !done.complete {
		next, err := m.read(ctx, t, done.after)
		if err != nil {
			return err
		}
		done.complete = next.last
		done.rows += int64(len(next.rows))
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
		m.report("copy", t.Name, done.rows)
		if err := m.shortenLogs(ctx); err != nil {
			return err
		}
	}
	return nil
}

// before calls Before with rows of a table.
func (m *Mover) before(ctx context.Context, t *table, rows []tablecopy.Row) error {
	if m.Before == nil || len(rows) == 0 {
		return nil
	}
	return m.Before(ctx, t.Table, rows)
}

// shortenLogs follows the changes now and then while rows are copied, which may take hours if Before copies
// bytes. Rows that are not copied yet are copied again.
func (m *Mover) shortenLogs(ctx context.Context) error {
	if time.Since(m.followed) < followInterval {
		return nil
	}
	err := m.Follow(ctx)
	m.followed = time.Now()
	return err
}

// rowsRead are rows of the source. last says that there are no more.
type rowsRead struct {
	rows []tablecopy.Row
	last bool
}

// read returns the rows after a key, so many that they take a bounded amount of memory.
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

// changed returns rows of the source as they are in the target: without those about the move, and with the
// resources of this data directory under its name there.
func (m *Mover) changed(t *table, rows []tablecopy.Row) []tablecopy.Row {
	for _, r := range rows {
		tablecopy.Convert(t.target.Columns, r)
	}
	switch t.Name {
	case "meta":
		return slices.DeleteFunc(rows, func(r tablecopy.Row) bool { return ofMove(t.KeyOf(r)) })
	case "resources":
		i := slices.IndexFunc(t.Columns, func(c db.Column) bool { return c.Name == "node" })
		for _, r := range rows {
			if r[i] == m.FromNode {
				r[i] = m.ToNode
			}
		}
	}
	return rows
}

// ofMove reports whether a key of meta is about a move or a restore.
func ofMove(key []any) bool {
	return slices.Contains(keysOfMove(), key[0])
}

// keysOfMove returns the keys of meta that are about a move or a restore.
func keysOfMove() []any { return []any{keyMoving, keyMoved, keyOwner, keyStore, "restoring"} }

// Follow copies what has changed, until there are few changes left, or until they do not become fewer because
// others write as fast. Finish copies the rest.
func (m *Mover) Follow(ctx context.Context) error {
	for before := int64(math.MaxInt64); ; {
		n, err := m.round(ctx)
		if err != nil || n < page || n >= before {
			return err
		}
		before = n
	}
}

// round copies the changes that are logged when it begins, and returns their number.
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

// follow copies the rows of a page of changes, up to the last one, as they are now. Changes are forgotten after
// that, so that an interruption loses none.
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

// apply makes the rows of the target with some keys those of the source, and compares them. If the rows
// are large, it does so in halves.
func (m *Mover) apply(ctx context.Context, t *table, keys [][]any) error {
	var current tablecopy.Page
	// All from one snapshot, so that no two of them have the same value in a unique index.
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

// Finish ends the move; nobody writes to the source any more. to says where the rows are now.
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
	for {
		n, err := m.round(ctx)
		if err != nil {
			return err
		}
		if n == 0 {
			break
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
	// In this order, so that at no time both can be served: after an interruption, Finish is called again.
	if err := m.markSource(ctx, to); err != nil {
		return err
	}
	if err := m.endTarget(ctx, number); err != nil {
		return err
	}
	return m.removeLogs(ctx)
}

// Count returns the number of rows of the target.
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

// count returns the number of rows that are moved.
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
