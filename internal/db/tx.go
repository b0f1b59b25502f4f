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

// ErrNoRows is returned by Row.Scan if there is no row, on both engines.
var ErrNoRows = sql.ErrNoRows

// Querier reads. It is bound to the context that it was made with. It returns errs.Invalid for text
// with a NUL or that is not UTF-8, and errs.Unavailable if the connection is lost or a statement takes
// longer than its limit (see Long).
type Querier interface {
	// Dialect returns the engine, for the few statements that have a text for each.
	Dialect() Dialect
	// Query returns the rows of a statement. They must be closed, or read to their end, before the next
	// statement.
	Query(sql string, args ...any) (Rows, error)
	// Row returns the first row of a statement. Its Scan returns ErrNoRows if there is none.
	Row(sql string, args ...any) Row

	plans() *plans
}

// Rows are the result of a query, one row at a time.
type Rows interface {
	Next() bool
	// Scan copies the columns of the row into variables.
	Scan(dest ...any) error
	Err() error
	Close()
}

// Row is a row of a result.
type Row interface {
	Scan(dest ...any) error
}

// Collect reads all rows of a statement with scan. The slice is not nil unless there is an error.
// Errors are those of the Querier and of scan.
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

// Value scans a row of one column, for Collect and for rows of a Querier.
func Value[T any](row Row) (value T, err error) { return value, row.Scan(&value) }

// session is a connection in a transaction.
type session interface {
	exec(ctx context.Context, sql string, args []any) (int64, error)
	query(ctx context.Context, sql string, args []any) (Rows, error)
	// send runs a statement, at once or together with a later one. r is nil if its result is not needed.
	send(ctx context.Context, r *Result, sql string, args []any) error
}

// Tx is a transaction, or a savepoint within one. It is used by one goroutine at a time, and not after
// the function that received it has returned.
type Tx struct {
	db          *DB
	s           session
	parent      *Tx
	depth       int
	ctx         context.Context
	hooks       []func()
	invalidated []string
	// deltas are what Counters.Add adds at the end, by the encoded key.
	deltas map[*Counters]map[string]delta
	// failed is the first error of a statement. PostgreSQL refuses all statements after one; SQLite
	// would not, so this package does it for both.
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

// joined returns the transaction of this database that ctx carries, or nil. It also returns one that
// is over, whose statements then fail: beginning a new transaction instead would break the promise
// that there is one.
func (d *DB) joined(ctx context.Context) *Tx {
	if t, ok := ctx.Value(txKey{}).(*Tx); ok && t.db == d {
		return t
	}
	return nil
}

// Dialect returns the engine, for statements that have a text of their own on each.
func (t *Tx) Dialect() Dialect { return t.db.dialect }

func (t *Tx) plans() *plans { return &t.db.bulkPlans }

// Context returns the context of the Write, carrying this transaction.
func (t *Tx) Context() context.Context { return t.ctx }

// OnCommit registers fn to be called after the commit, by the goroutine of the caller, before Write
// returns; it is not called after a rollback. In a joined Write it is called after the outer commit.
func (t *Tx) OnCommit(fn func()) { t.hooks = append(t.hooks, fn) }

// Exec runs a statement and returns the number of affected rows. IsUnique recognizes a violated key;
// other errors are those of Querier.
func (t *Tx) Exec(sql string, args ...any) (affected int64, err error) {
	sql, args, err = t.prepare(sql, args)
	if err != nil {
		return 0, err
	}
	n, err := t.s.exec(t.ctx, sql, args)
	return n, t.check(err)
}

// Send runs a statement whose result is not needed, such as an insert. On PostgreSQL it is sent
// together with the next statement or with the commit, so that a Write that only sends takes one round
// trip. Its error is returned by Send, by a later statement, or by Write.
func (t *Tx) Send(sql string, args ...any) error {
	return t.sendFor(nil, sql, args)
}

// Query runs a statement as described by Querier.
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

// Row runs a statement as described by Querier.
func (t *Tx) Row(sql string, args ...any) Row {
	rows, err := t.Query(sql, args...)
	if err != nil {
		return failedRow{err}
	}
	return firstRow{rows}
}

// prepare returns a statement and its arguments by number, or an error if it must not run.
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

// check keeps the first error of a statement, and returns err.
func (t *Tx) check(err error) error {
	if err != nil && t.failed == nil {
		t.failed = err
	}
	return err
}

// run calls fn, and at the end of the outermost transaction writes what was deferred until then. It
// returns an error if a statement failed, even if fn ignored that.
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
	// Deferred for panics: the outer function may recover from one and go on.
	defer func() {
		if !kept {
			_ = t.control("ROLLBACK TO SAVEPOINT " + name) // an error is kept in t
		}
		if mustRetry(sub.failed) {
			_ = t.check(sub.failed) // the server asks for a retry of the whole transaction
		}
	}()
	if err := sub.run(fn); err != nil {
		return err
	}
	// An error may be that of a statement that sub has sent, which is rolled back with it. So it is kept
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

// finish writes what was deferred until the end of the transaction: counters and epochs are rows that
// many transactions change. Written last they are locked briefly, and in order they cause no deadlock.
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

// txRows allow the next statement of the transaction when they end.
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

// failedRow is the row of a query that failed.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// firstRow is the first one of rows, which it closes.
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
