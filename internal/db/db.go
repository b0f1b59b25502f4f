// Package db owns the rows: opening and migrating the database, the one door for writes, reads, and the differences between SQLite
// and PostgreSQL.
//
// Data moves through it like this. A slice asks Read for a Querier, or hands a function to Write. Statements are written once, in
// PostgreSQL's style ($1), and run on both engines; times are int64 microseconds, JSON is a string, blobs are []byte, and a boolean
// column is BOOLEAN on PostgreSQL and INTEGER on SQLite (`WHERE NOT deleted` works on both).
//
// On SQLite every Write goes through a queue to one goroutine that owns the only writing connection. It takes one request, then
// whatever else waits, runs each inside its own savepoint, commits once and answers all (group commit, commit.go): callers share the
// fsync, and one bad write fails alone. Reads run beside it on a small pool of read-only connections (reader.go). On PostgreSQL a
// Write is a transaction of its own on the pool, run again when the server asks for that (postgres.go); PostgreSQL groups the
// flushes itself.
//
// A transaction travels in a context: Read and Write made with Tx.Context() join it. Caches are told of changes through Bump, Watch
// and RunWatch (watch.go).
//
// The rules are the same on both engines, so that a test on one of them finds a breach:
//   - finish or close Rows before the next statement of the same transaction;
//   - a statement that failed spoils its transaction (a joined Write spoils only itself, if its error is not passed on, unless the
//     server asks to run the transaction again);
//   - the function given to Write may run more than once, so its effects outside of the database belong into OnCommit;
//   - inside of that function use Tx.Context() for everything: a Write with the outer context would wait for itself.
package db

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"steward/internal/errs"
)

// Dialect names an engine.
type Dialect int

// The engines.
const (
	SQLite Dialect = iota + 1
	Postgres
)

func (d Dialect) String() string {
	switch d {
	case SQLite:
		return "sqlite"
	case Postgres:
		return "postgres"
	}
	return "unknown"
}

// Options say where the rows are.
type Options struct {
	// Path is the SQLite file; its directory must exist. Not used when URL is set.
	Path string
	// URL is a postgres:// URL; empty means SQLite at Path.
	URL string
	// Log gets what nobody waits for an answer to; nil means slog.Default().
	Log *slog.Logger
	// Queue is how many writes may wait on SQLite before others are refused; 0 means 4096.
	Queue int
	// MaxConns bounds the PostgreSQL pool; 0 means 32.
	MaxConns int
	// Observer is called for what metrics are made of.
	Observer Observer
}

// Observer has functions that are called when something happened. They must not block; nil ones are
// not called.
type Observer struct {
	// Commit is called after a commit, with the number of writes in the transaction, which is 1 on
	// PostgreSQL, and the time from the call of Write to the commit for the oldest of them.
	Commit func(writes int, wait time.Duration)
	// Invalidated is called when changes of other replicas were applied to the caches of this one, with
	// the time since the oldest of them was made.
	Invalidated func(lag time.Duration)
}

func (o Observer) commit(writes int, wait time.Duration) {
	if o.Commit != nil {
		o.Commit(writes, wait)
	}
}

func (o Observer) invalidated(lag time.Duration) {
	if o.Invalidated != nil {
		o.Invalidated(lag)
	}
}

// engine is what differs between SQLite and PostgreSQL.
type engine interface {
	// write runs fn in a transaction of its own. The Tx that fn got is returned when it committed, for its OnCommit.
	write(ctx context.Context, fn func(*Tx) error) (*Tx, error)
	query(ctx context.Context, sql string, args []any) (Rows, error)
	ping(ctx context.Context) error
	close() error
}

// DB is an open database. It is safe for use by many goroutines.
type DB struct {
	dialect  Dialect
	engine   engine
	log      *slog.Logger
	observer Observer
	watchers watchers
	outbox   *outbox
	// instance tells the notifications of this process from those of other replicas.
	instance string
	// poll is how often RunWatch reads the epochs.
	poll time.Duration
}

// Open opens the database, and brings its schema up to date. Several processes may do so at once on PostgreSQL. It refuses a schema
// that is newer than this binary, a SQLite file that does not do WAL with synchronous=FULL, and answers with errs.Unavailable when the server
// cannot be reached.
func Open(ctx context.Context, o Options) (*DB, error) {
	d := &DB{
		log:      cmp.Or(o.Log, slog.Default()),
		observer: o.Observer,
		outbox:   newOutbox(),
		instance: rand.Text(),
		poll:     defaultPoll,
	}
	open := d.openPostgres
	if o.URL == "" {
		open = d.openSQLite
	}
	if err := open(ctx, o); err != nil {
		return nil, fmt.Errorf("db: %w", err)
	}
	return d, nil
}

// Close finishes the writes that wait in the queue, then closes the connections. Writes that come later are refused with
// errs.Unavailable.
func (d *DB) Close() error { return d.engine.close() }

// Dialect tells which engine this is.
func (d *DB) Dialect() Dialect { return d.dialect }

// Ping answers nil when the database can be read, else errs.Unavailable or the error of ctx.
func (d *DB) Ping(ctx context.Context) error { return d.engine.ping(ctx) }

// Read gives a Querier bound to ctx. It reads inside the transaction that ctx carries, else what is committed.
func (d *DB) Read(ctx context.Context) Querier {
	if t := d.joined(ctx); t != nil {
		return t
	}
	return reads{d, ctx}
}

// Write runs fn in a transaction; nil means that everything fn did is committed and fsynced. It joins the transaction that ctx
// carries, as a savepoint: then nil means that it will be durable when the outer Write returns nil.
//
// The error of fn comes back as it is, and nothing of the transaction is kept. errs.Unavailable comes back when the queue is full,
// when the disk or the connection fails (the message says so if the outcome is not known), or when retries did not help; the error of
// ctx when it ended before fn began on SQLite, or before the commit on PostgreSQL. A panic of fn rolls back and goes on in the caller.
func (d *DB) Write(ctx context.Context, fn func(*Tx) error) error {
	if outer := d.joined(ctx); outer != nil {
		return outer.join(ctx, fn)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	t, err := d.engine.write(ctx, fn)
	if err != nil {
		return err
	}
	for _, hook := range t.hooks {
		hook()
	}
	return nil
}

// reads is the Querier outside of a transaction.
type reads struct {
	db  *DB
	ctx context.Context
}

func (r reads) Dialect() Dialect { return r.db.dialect }

func (r reads) Query(sql string, args ...any) (Rows, error) {
	if err := checkText(args); err != nil {
		return nil, err
	}
	return r.db.engine.query(r.ctx, sql, args)
}

func (r reads) Row(sql string, args ...any) Row {
	if err := checkText(args); err != nil {
		return failedRow{err}
	}
	return lazyRow{r.db.engine, r.ctx, sql, args}
}

// lazyRow runs its query when it is scanned, so that a Row that nobody scans holds no connection.
type lazyRow struct {
	e    engine
	ctx  context.Context
	sql  string
	args []any
}

func (r lazyRow) Scan(dest ...any) error {
	rows, err := r.e.query(r.ctx, r.sql, r.args)
	if err != nil {
		return err
	}
	return firstRow{rows}.Scan(dest...)
}

var errClosed = errs.New(errs.Unavailable, "the database is closed")
