// Package db owns the database: opening and migrating it, transactions, reads, counters, the invalidation of
// caches, and every difference between SQLite and PostgreSQL.
//
// A store reads with the Querier that Read returns, and writes in a function that it passes to Write.
// Statements are written once, in PostgreSQL's style ($1, or @name with Args), and run on both engines. Times are int64
// microseconds, JSON is a string, bytes are []byte, and a boolean column is BOOLEAN on PostgreSQL and
// INTEGER on SQLite (`WHERE NOT deleted` works on both).
//
// On SQLite every Write goes through a queue. One goroutine owns the only connection that writes. It
// takes all waiting requests, has each run in its own savepoint of one transaction, and commits once
// (group commit, sqlite.Batch): callers share the fsync, and a request that fails does not affect the
// others. Reads run beside it on a pool of connections (reader.go). On PostgreSQL a Write is
// a transaction of its own, which is retried if the server asks for that (postgres.go); PostgreSQL
// groups the flushes itself.
//
// A context can carry a transaction: Read and Write with Tx.Context() join it. Invalidate empties caches
// on all replicas, and Notify calls functions on them (watch.go, notify.go).
//
// These rules are the same on both engines, so that a test on one of them finds a violation:
//   - Rows are read to their end or closed before the next statement of the same transaction.
//   - After a failed statement, the transaction can only be rolled back. A joined Write that fails does
//     not fail the outer one, unless its error is returned or the server asks for a retry.
//   - The function passed to Write may run more than once, so effects outside of the database belong
//     into OnCommit.
//   - In that function, use Tx.Context() for everything: a Write with the outer context would wait for
//     itself.
package db

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/errs"
)

// Dialect identifies an engine.
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

// Options are the options of Open.
type Options struct {
	// Path is the SQLite file; its directory must exist. It is not used if URL is set.
	Path string
	// URL is a postgres:// URL; empty means SQLite at Path.
	URL string
	// Log receives errors that are not returned to a caller; nil means slog.Default().
	Log *slog.Logger
	// Queue is how many writes may wait on SQLite before others are refused; 0 means 4096.
	Queue int
	// Pooler is how a pooler such as PgBouncer between this process and PostgreSQL works: SessionPooler
	// or TransactionPooler. Open returns an error if there is one and Pooler is empty.
	Pooler string
	// Replan is how long a connection to PostgreSQL uses the plans of its statements; 0 means 10 seconds.
	Replan time.Duration
	// MaxConns bounds the PostgreSQL pool; 0 means 32.
	MaxConns int
	// Observer is called for what metrics are made of.
	Observer Observer
	// Reserve is how many bytes must be free on the disk of the SQLite file for a migration; 0 means
	// disk.Reserve.
	Reserve int64
	// Migrations are the files of the schema, for tests; nil means those of this binary.
	Migrations fs.FS
	// Restoring opens a database that Tx.BeginRestore has closed to others.
	Restoring bool
}

func (o Options) migrations() fs.FS {
	if o.Migrations != nil {
		return o.Migrations
	}
	return migrationFiles()
}

// Observer has functions that are called when something happened. They must not block; nil ones are
// not called.
type Observer struct {
	// Commit is called after a commit, with the number of writes in the transaction, which is 1 on
	// PostgreSQL, and the time from the call of Write to the commit for the oldest of them.
	Commit func(writes int, wait time.Duration)
	// SlowWrite is called on SQLite after a write whose function held the only writer for longer than
	// SlowWrite, with the context of its Write. For a batch of Gather that is the context of its leader.
	SlowWrite func(ctx context.Context, held time.Duration)
	// Begin is called when a transaction or a read outside of one begins, with the context of its caller
	// and what it is: "write", "read" or "snapshot". The function that it returns is called at the end; it may
	// return nil. For a write of Gather that is the time until the commit, whoever led the batch.
	Begin func(ctx context.Context, operation string) (end func(error))
	// Concern is called by Open for each thing about a PostgreSQL server that an operator should change.
	Concern func(Concern)
	// Invalidated is called when changes of other replicas were applied to the caches of this one, with
	// the time since the oldest of them was made.
	Invalidated func(lag time.Duration)
	// Statement is called with the text of each statement before it runs. Tests check with it that
	// every statement runs on both engines.
	Statement func(text string)
}

func (o Observer) commit(writes int, wait time.Duration) {
	if o.Commit != nil {
		o.Commit(writes, wait)
	}
}

// begin returns what is to be called at the end of an operation, or nil.
func (o Observer) begin(ctx context.Context, operation string) (end func(error)) {
	if o.Begin == nil {
		return nil
	}
	return o.Begin(ctx, operation)
}

// SlowWrite is how long a write may hold the only writer of SQLite without being reported.
const SlowWrite = 100 * time.Millisecond

func (o Observer) held(ctx context.Context, took time.Duration) {
	if o.SlowWrite != nil && took > SlowWrite {
		o.SlowWrite(origin(ctx), took)
	}
}

func (o Observer) statement(text string) {
	if o.Statement != nil {
		o.Statement(text)
	}
}

func (o Observer) invalidated(lag time.Duration) {
	if o.Invalidated != nil {
		o.Invalidated(lag)
	}
}

// engine is what differs between SQLite and PostgreSQL.
type engine interface {
	// write runs fn in a transaction of its own. If that is committed, it returns the Tx of fn.
	write(ctx context.Context, fn func(*Tx) error) (*Tx, error)
	query(ctx context.Context, sql string, args []any) (Rows, error)
	// snapshot runs fn in a transaction that only reads.
	snapshot(ctx context.Context, d *DB, fn func(Querier) error) error
	ping(ctx context.Context) error
	connections() Connections
	close() error
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	dialect  Dialect
	engine   engine
	log      *slog.Logger
	observer Observer
	watchers watchers
	outbox   *outbox
	// instance distinguishes the notifications of this process from those of other replicas.
	instance string
	// othersUntil is until when, in Unix nanoseconds, other processes are taken to use the database.
	othersUntil atomic.Int64
	// numbered has the statements with names, by their text.
	numbered  sync.Map
	bulkPlans plans
	// poll is how often RunWatch reads the epochs.
	poll time.Duration
}

// Open opens the database and migrates its schema. On PostgreSQL several processes may do so at the
// same time. It returns an error if the schema is newer than this binary or if commits would not be
// durable, and errs.Unavailable if the server cannot be reached.
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
	if o.Restoring {
		return d, nil
	}
	if err := d.checkRestored(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("db: %w", err), d.Close())
	}
	return d, nil
}

// Close commits the writes that wait in the queue, then closes the connections. Later writes return
// errs.Unavailable.
func (d *DB) Close() error { return d.engine.close() }

// Dialect returns the engine of the database.
func (d *DB) Dialect() Dialect { return d.dialect }

// Ping returns nil if the database can be read, and otherwise errs.Unavailable or the error of ctx.
func (d *DB) Ping(ctx context.Context) error { return d.engine.ping(ctx) }

// Reusable returns the number of bytes in the SQLite file that deleted rows have left, and new ones can
// use: the file does not shrink.
func (d *DB) Reusable(ctx context.Context) (n int64, err error) {
	err = d.Read(ctx).Row(`SELECT f.freelist_count * p.page_size FROM pragma_freelist_count f, pragma_page_size p`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("read the free pages: %w", err)
	}
	return n, nil
}

// Read returns a Querier bound to ctx. It reads in the transaction that ctx carries, if any, and
// otherwise what is committed.
func (d *DB) Read(ctx context.Context) Querier {
	if t := d.joined(ctx); t != nil {
		return t
	}
	return reader{d, ctx}
}

// Write runs fn in a transaction. If it returns nil, everything that fn did is committed and fsynced.
// If ctx carries a transaction, it joins that as a savepoint; then it is durable when the outer Write
// returns nil.
//
// An error of fn rolls back the transaction and is returned unchanged. Write returns errs.Unavailable
// if the queue is full, if the disk or the connection fails, if a statement takes too long (see Long), or
// if retries did not help; nothing was committed then. If the connection is lost during the commit,
// IsOutcomeUnknown reports true for the error. Write returns the error of ctx if ctx ends before fn
// begins on SQLite, or before the commit on PostgreSQL. A panic of fn rolls back and continues in the
// caller.
func (d *DB) Write(ctx context.Context, fn func(*Tx) error) (err error) {
	if outer := d.joined(ctx); outer != nil {
		return outer.join(ctx, fn)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if end := d.observer.begin(ctx, "write"); end != nil {
		defer func() { end(err) }()
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

// reader is the Querier outside of a transaction.
type reader struct {
	db  *DB
	ctx context.Context
}

func (r reader) Dialect() Dialect { return r.db.dialect }

func (r reader) plans() *plans { return &r.db.bulkPlans }

func (r reader) Query(sql string, args ...any) (Rows, error) {
	sql, args, err := r.db.arguments(sql, args)
	if err != nil {
		return nil, err
	}
	return r.db.query(r.ctx, sql, args)
}

func (r reader) Row(sql string, args ...any) Row {
	sql, args, err := r.db.arguments(sql, args)
	if err != nil {
		return failedRow{err}
	}
	return lazyRow{r.db, r.ctx, sql, args}
}

// querying is an engine, or a DB, whose observer sees the query.
type querying interface {
	query(ctx context.Context, sql string, args []any) (Rows, error)
}

// lazyRow runs its query when it is scanned, so that a Row that nobody scans holds no connection.
type lazyRow struct {
	e    querying
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
