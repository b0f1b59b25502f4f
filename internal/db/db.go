// Package db owns the database: it opens and migrates it, runs transactions and reads, counts rows,
// invalidates caches, and hides every difference between SQLite and PostgreSQL.
//
// A store reads with the Querier that Read returns, and writes in a function that it passes to
// Write. You write a statement once, in PostgreSQL's style ($1, or @name with Args), and it runs on
// both engines. Times are int64 microseconds, JSON is a string, bytes are []byte, and a boolean
// column is BOOLEAN on PostgreSQL and INTEGER on SQLite (`WHERE NOT deleted` works on both).
//
// On SQLite every Write goes through a queue. One goroutine owns the only connection that writes. It
// takes all waiting requests, runs each in its own savepoint within one transaction, and commits
// once (group commit, sqlite.Batch): callers share the fsync, and a request that fails does not
// affect the others. Reads run concurrently on a pool of connections (reader.go). On PostgreSQL each
// Write is its own transaction, which we retry if the server asks for that (postgres.go); PostgreSQL
// groups the flushes itself.
//
// A context can carry a transaction: Read and Write with Tx.Context() join it. Invalidate empties
// caches on all replicas, and Notify calls functions on them (watch.go, notify.go).
//
// Both engines enforce the same rules, so that a test on either finds a violation:
//   - Read rows to their end or close them before the next statement in the same transaction.
//   - After a failed statement, the transaction can only roll back. A joined Write that fails does
//     not fail the outer one, unless you return its error or the server asks for a retry.
//   - The function passed to Write may run more than once, so effects outside the database belong in
//     OnCommit.
//   - In that function, use Tx.Context() for everything: a Write with the outer context would wait
//     for itself.
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

// Options configures Open.
type Options struct {
	// Path is the SQLite file; its directory must exist. It is not used if URL is set.
	Path string
	// URL is a postgres:// URL; if empty, Open uses SQLite at Path.
	URL string
	// Log receives errors that are not returned to a caller; nil means slog.Default().
	Log *slog.Logger
	// Queue caps the writes that wait on SQLite; more are refused. 0 means 4096.
	Queue int
	// Pooler tells how a pooler such as PgBouncer between this process and PostgreSQL works:
	// SessionPooler or TransactionPooler. Open returns an error if it finds a pooler and Pooler is
	// empty.
	Pooler string
	// Replan limits how long a PostgreSQL connection keeps its statements' plans; 0 means 10
	// seconds.
	Replan time.Duration
	// MaxConns bounds the PostgreSQL pool; 0 means 32.
	MaxConns int
	// Observer receives the events that metrics count.
	Observer Observer
	// Reserve is the free disk space in bytes that migrating a SQLite file requires; 0 means
	// disk.Reserve.
	Reserve int64
	// Migrations has the schema's files, for tests; nil means the ones in this binary.
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

// Observer is a set of functions called when something happens. They must not block; a nil one is
// skipped.
type Observer struct {
	// Commit is called after a commit, with the number of writes in the transaction (always 1 on
	// PostgreSQL) and the time that the oldest one took from its call of Write to the commit.
	Commit func(writes int, wait time.Duration)
	// SlowWrite is called on SQLite after a write whose function held the only writer for longer
	// than SlowWrite, with its Write's context. A Gather batch reports its leader's context.
	SlowWrite func(ctx context.Context, held time.Duration)
	// Begin is called when a transaction, or a read outside one, begins. It gets the caller's
	// context and the operation: "write", "read" or "snapshot". If it returns a function, we call
	// that at the end. For a Gather write the end is the commit, whoever led the batch.
	Begin func(ctx context.Context, operation string) (end func(error))
	// Invalidated is called when we have applied other replicas' changes to our caches, with the age
	// of the oldest change.
	Invalidated func(lag time.Duration)
	// Statement is called with each statement's text before it runs. Tests use it to check that
	// every statement runs on both engines.
	Statement func(text string)
}

func (o Observer) commit(writes int, wait time.Duration) {
	if o.Commit != nil {
		o.Commit(writes, wait)
	}
}

// begin returns a function to call when the operation ends, or nil.
func (o Observer) begin(ctx context.Context, operation string) (end func(error)) {
	if o.Begin == nil {
		return nil
	}
	return o.Begin(ctx, operation)
}

// SlowWrite limits how long a write may hold SQLite's only writer unreported.
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

// engine hides the differences between SQLite and PostgreSQL.
type engine interface {
	// write runs fn in a transaction. If that commits, it returns fn's Tx.
	write(ctx context.Context, fn func(*Tx) error) (*Tx, error)
	query(ctx context.Context, sql string, args []any) (Rows, error)
	// snapshot runs fn in a read-only transaction.
	snapshot(ctx context.Context, d *DB, fn func(Querier) error) error
	ping(ctx context.Context) error
	concerns(ctx context.Context) []Concern
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
	// instance tells this process's notifications from other replicas'.
	instance string
	// othersUntil is the time, in Unix nanoseconds, until which we assume that other processes use
	// the database.
	othersUntil atomic.Int64
	// numbered maps the text of a statement with names to its numbered form.
	numbered  sync.Map
	bulkPlans plans
	// poll is how often RunWatch reads the epochs.
	poll time.Duration
}

// Open opens the database and migrates its schema. On PostgreSQL several processes may do so at the
// same time. It returns an error if the schema is newer than this binary or if commits would not be
// durable, and errs.Unavailable if it cannot reach the server.
func Open(ctx context.Context, o Options) (*DB, error) {
	d := &DB{
		log:      cmp.Or(o.Log, slog.Default()),
		observer: o.Observer,
		outbox:   &outbox{names: map[string]bool{}, ready: make(chan struct{}, 1)},
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

// Close commits the writes in the queue, then closes the connections. Later writes return
// errs.Unavailable.
func (d *DB) Close() error { return d.engine.close() }

// Dialect returns the database's engine.
func (d *DB) Dialect() Dialect { return d.dialect }

// Ping returns nil if the database can be read, and otherwise errs.Unavailable or ctx's error.
func (d *DB) Ping(ctx context.Context) error { return d.engine.ping(ctx) }

// Concerns returns the problems with a PostgreSQL server that an operator should fix.
func (d *DB) Concerns(ctx context.Context) []Concern { return d.engine.concerns(ctx) }

// Reusable returns the bytes in the SQLite file that deleted rows left free for new ones: the file
// does not shrink.
func (d *DB) Reusable(ctx context.Context) (n int64, err error) {
	err = d.Read(ctx).Row(`SELECT f.freelist_count * p.page_size FROM pragma_freelist_count f, pragma_page_size p`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("read the free pages: %w", err)
	}
	return n, nil
}

// Read returns a Querier bound to ctx. It reads in the transaction that ctx carries, and without one
// it reads committed rows.
func (d *DB) Read(ctx context.Context) Querier {
	if t := d.joined(ctx); t != nil {
		return t
	}
	return reader{d, ctx}
}

// Write runs fn in a transaction. If Write returns nil, everything that fn did is committed and
// fsynced. If ctx carries a transaction, Write joins it as a savepoint, which is durable once the
// outer Write returns nil.
//
// If fn returns an error, the transaction rolls back and Write returns that error unchanged. Write
// returns errs.Unavailable if the queue is full, the disk or the connection fails, a statement takes
// too long (see Long), or retries did not help; nothing was committed then. If the connection is
// lost during the commit, IsOutcomeUnknown reports true for the error. Write returns ctx's error if
// ctx ends before fn begins on SQLite, or before the commit on PostgreSQL. A panic in fn rolls back
// and continues in the caller.
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

// reader is the Querier outside a transaction.
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

// querying is an engine, or a DB, which tells its observer about the query.
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

// errTried rolls back Try's transaction.
var errTried = errors.New("db: the transaction was only tried")

// Try runs fn in a transaction that it rolls back, to learn whether fn's writes would succeed. fn
// must use the given context for everything. Errors are fn's and Write's.
func (d *DB) Try(ctx context.Context, fn func(context.Context) error) error {
	err := d.Write(ctx, func(tx *Tx) error {
		if err := fn(tx.Context()); err != nil {
			return err
		}
		return errTried
	})
	if errors.Is(err, errTried) {
		return nil
	}
	return err
}
