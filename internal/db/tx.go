package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrNoRows is returned by Row.Scan on both engines if there is no row.
var ErrNoRows = sql.ErrNoRows

// Querier reads. It is bound to the context that it was made with. It returns errs.Invalid for text
// that contains a NUL or is not UTF-8, and errs.Unavailable if the connection is lost or a statement
// exceeds its time limit (see Long).
type Querier interface {
	// Dialect returns the engine, for the few statements that differ between the two.
	Dialect() Dialect
	// Query returns a statement's rows. Close them, or read them to their end, before the next
	// statement.
	Query(sql string, args ...any) (Rows, error)
	// Row returns a statement's first row. Its Scan returns ErrNoRows if there is none.
	Row(sql string, args ...any) Row

	plans() *plans
}

// Rows is a query's result, one row at a time.
type Rows interface {
	Next() bool
	// Scan copies the row's columns into variables.
	Scan(dest ...any) error
	Err() error
	Close()
}

// Row is one row in a result.
type Row interface {
	Scan(dest ...any) error
}

// Collect reads all rows with scan. The slice is not nil unless there is an error, from the Querier
// or from scan.
func Collect[T any](q Querier, scan func(Row) (T, error), sql string, args ...any) ([]T, error) {
	rows, err := q.Query(sql, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []T{}
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return all, nil
}

// Value scans a row with one column; use it with Collect or on a Querier's rows.
func Value[T any](row Row) (value T, err error) { return value, row.Scan(&value) }

// session is a connection in a transaction.
type session interface {
	exec(ctx context.Context, sql string, args []any) (int64, error)
	query(ctx context.Context, sql string, args []any) (Rows, error)
	// send runs a statement, at once or together with a later one. r is nil if nobody needs the
	// result.
	send(ctx context.Context, r *Result, sql string, args []any) error
}

// Tx is a transaction, or a savepoint within one. Only one goroutine at a time may use it, and only
// until the function that received it returns.
type Tx struct {
	db          *DB
	s           session
	parent      *Tx
	depth       int
	ctx         context.Context
	hooks       []func()
	invalidated []string
	// deltas holds the sums that Counters.Add adds at the end, by the encoded key.
	deltas map[*Counters]map[string]delta
	// failed is the first statement's error. After one, PostgreSQL refuses all further statements;
	// SQLite would not, so this package does it for both.
	failed error
	open   *txRows
	over   bool
}

var (
	errOpenRows = errors.New("db: rows of an earlier statement of this transaction are still open")
	errOver     = errors.New("db: the transaction is over")
)

type txKey struct{}

func newTx(ctx context.Context, d *DB, s session, parent *Tx) *Tx {
	t := &Tx{db: d, s: s, parent: parent}
	if parent != nil {
		t.depth = parent.depth + 1
	}
	t.ctx = context.WithValue(ctx, txKey{}, t)
	return t
}

// joined returns this database's transaction that ctx carries, or nil. It also returns one that is
// over, so that its statements fail: silently beginning a new transaction would break the promise
// that there is one.
func (d *DB) joined(ctx context.Context) *Tx {
	if t, ok := ctx.Value(txKey{}).(*Tx); ok && t.db == d {
		return t
	}
	return nil
}

// Dialect returns the engine, for statements that differ between the two.
func (t *Tx) Dialect() Dialect { return t.db.dialect }

func (t *Tx) plans() *plans { return &t.db.bulkPlans }

// Context returns the context passed to Write, carrying this transaction.
func (t *Tx) Context() context.Context { return t.ctx }

// OnCommit registers fn. The caller's goroutine calls it after the commit, before Write returns; a
// rollback drops it. In a joined Write it runs after the outer commit.
func (t *Tx) OnCommit(fn func()) { t.hooks = append(t.hooks, fn) }

// Exec runs a statement and returns the number of affected rows. IsUnique recognizes a violated key;
// other errors are the Querier's.
func (t *Tx) Exec(sql string, args ...any) (affected int64, err error) {
	sql, args, err = t.prepare(sql, args)
	if err != nil {
		return 0, err
	}
	n, err := t.s.exec(t.ctx, sql, args)
	return n, t.check(err)
}

// Send runs a statement whose result nobody needs, such as an insert. On PostgreSQL it travels with
// the next statement or with the commit, so that a Write that only sends takes one round trip. Send,
// a later statement, or Write returns its error.
func (t *Tx) Send(sql string, args ...any) error {
	return t.sendFor(nil, sql, args)
}

// Query runs a statement as Querier describes.
func (t *Tx) Query(sql string, args ...any) (Rows, error) {
	sql, args, err := t.prepare(sql, args)
	if err != nil {
		return nil, err
	}
	rows, err := t.s.query(t.ctx, sql, args)
	if err != nil {
		return nil, t.check(err)
	}
	t.open = &txRows{Rows: rows, t: t}
	return t.open, nil
}

// Row runs a statement as Querier describes.
func (t *Tx) Row(sql string, args ...any) Row {
	rows, err := t.Query(sql, args...)
	if err != nil {
		return failedRow{err}
	}
	return firstRow{rows}
}

// prepare numbers a statement's arguments, or returns an error if it must not run.
func (t *Tx) prepare(sql string, args []any) (string, []any, error) {
	if err := t.ready(); err != nil {
		return "", nil, err
	}
	return t.db.arguments(sql, args)
}

// ready returns an error if the next statement must not run.
func (t *Tx) ready() error {
	switch {
	case t.over:
		return errOver
	case t.failed != nil:
		return fmt.Errorf("db: an earlier statement of this transaction failed: %w", t.failed)
	case t.open != nil:
		return errOpenRows
	}
	return nil
}

// check keeps the first statement's error, and returns err.
func (t *Tx) check(err error) error {
	if err != nil && t.failed == nil {
		t.failed = err
	}
	return err
}

// run calls fn, and at the end of the outermost transaction writes everything deferred until then.
// It returns an error if a statement failed, even if fn ignored that.
func (t *Tx) run(fn func(*Tx) error) error {
	defer func() {
		t.closeRows()
		t.over = true
	}()
	if err := fn(t); err != nil {
		return err
	}
	t.closeRows()
	if t.failed != nil {
		return t.failed
	}
	if t.parent != nil {
		return nil
	}
	return t.finish()
}

// closeRows closes rows that fn left open.
func (t *Tx) closeRows() {
	if t.open != nil {
		t.open.Close()
	}
}

// join runs fn in a savepoint.
func (t *Tx) join(ctx context.Context, fn func(*Tx) error) error {
	if err := t.ready(); err != nil {
		return err
	}
	sub := newTx(ctx, t.db, t.s, t)
	name := "s" + strconv.Itoa(sub.depth)
	if err := t.control("SAVEPOINT " + name); err != nil {
		return err
	}
	kept := false
	// Deferred because of panics: the outer function may recover from one and go on.
	defer func() {
		if !kept {
			_ = t.control("ROLLBACK TO SAVEPOINT " + name) // t keeps the error
		}
		if mustRetry(sub.failed) {
			_ = t.check(sub.failed) // the server wants the whole transaction retried
		}
	}()
	if err := sub.run(fn); err != nil {
		return err
	}
	// The error may come from a statement that sub sent, which is rolled back with it. So we keep it
	// in sub, not in t.
	if err := sub.control("RELEASE SAVEPOINT " + name); err != nil {
		return err
	}
	kept = true
	t.hooks = append(t.hooks, sub.hooks...)
	t.invalidated = append(t.invalidated, sub.invalidated...)
	for c, byKey := range sub.deltas {
		for _, d := range byKey {
			t.add(c, d.key, d.by)
		}
	}
	return nil
}

func (t *Tx) control(sql string) error {
	_, err := t.s.exec(t.ctx, sql, nil)
	return t.check(err)
}

// finish writes counters and epochs at the end of the transaction. Many transactions change these
// rows: written last they stay locked only briefly, and in order they cause no deadlock.
func (t *Tx) finish() error {
	byTable := func(a, b *Counters) int { return strings.Compare(a.table, b.table) }
	for _, c := range slices.SortedFunc(maps.Keys(t.deltas), byTable) {
		if err := c.write(t, t.deltas[c]); err != nil {
			return err
		}
	}
	slices.Sort(t.invalidated)
	for _, name := range slices.Compact(t.invalidated) {
		if err := t.Send(raiseEpoch[t.db.dialect], name, t.db.instance); err != nil {
			return fmt.Errorf("raise epoch: %w", err)
		}
	}
	return nil
}

// txRows lets the transaction run its next statement once they end.
type txRows struct {
	Rows
	t *Tx
}

func (r *txRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *txRows) Close() {
	r.Rows.Close()
	if r.t.open == r {
		r.t.open = nil
		_ = r.t.check(r.Rows.Err())
	}
}

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// firstRow scans the first row and closes the rest.
type firstRow struct{ rows Rows }

func (r firstRow) Scan(dest ...any) error {
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
