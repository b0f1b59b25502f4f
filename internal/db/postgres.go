package db

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"steward/internal/errs"
)

const (
	maxTries = 10
	// pingTimeout bounds the check of an idle connection. It is short, to leave time to try others.
	pingTimeout   = 2 * time.Second
	defaultReplan = 10 * time.Second
)

// postgresEngine is the engine for PostgreSQL: a pool of connections.
type postgresEngine struct {
	db     *DB
	pool   *pgxpool.Pool
	pooler string
	// replan limits how long a connection uses its statements' plans.
	replan   time.Duration
	maxConns int // as in Options
	closed   atomic.Bool
}

func (d *DB) openPostgres(ctx context.Context, o Options) error {
	d.dialect = Postgres
	cfg, err := poolConfig(o)
	if err != nil {
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return explainPostgres(err)
	}
	e := &postgresEngine{db: d, pool: pool, pooler: o.Pooler, replan: cmp.Or(o.Replan, defaultReplan), maxConns: o.MaxConns}
	if err := e.prepare(ctx, o.migrations()); err != nil {
		pool.Close()
		return err
	}
	d.engine = e
	return nil
}

// prepare checks the server and migrates the schema.
func (e *postgresEngine) prepare(ctx context.Context, files fs.FS) error {
	if err := e.check(ctx); err != nil {
		return err
	}
	migrator := stdlib.OpenDB(*e.connConfig(migrationLimits))
	return errors.Join(e.migrate(ctx, migrator, files), migrator.Close())
}

// migrate brings the schema up to date. If it is already, that costs one query.
func (e *postgresEngine) migrate(ctx context.Context, pool *sql.DB, files fs.FS) error {
	left, err := missing(ctx, pool, files)
	if err != nil || len(left) == 0 {
		return err
	}
	return e.db.migrate(ctx, pool, files)
}

func (e *postgresEngine) check(ctx context.Context) error {
	conn, err := e.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	ctx, cancel := limited(ctx)
	defer cancel()
	var mode string
	// Compatible servers may not have the setting.
	if err := conn.QueryRow(ctx, "SHOW synchronous_commit").Scan(&mode); err == nil && mode == "off" {
		return errors.New("the server has synchronous_commit=off: commits would not be durable")
	}
	// An empty database must be able to store every text. One in use only gets a Concern.
	var encoding string
	var used bool
	err = conn.QueryRow(ctx, "SELECT current_setting('server_encoding'), to_regclass('meta') IS NOT NULL").Scan(&encoding, &used)
	if err == nil && !used && !hasEveryText(encoding) {
		return fmt.Errorf("the database has the encoding %s; create it with ENCODING 'UTF8' TEMPLATE template0", encoding)
	}
	return nil
}

// acquire returns a connection from the pool.
func (e *postgresEngine) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return nil, e.explain(explainLimit(ctx, err))
	}
	return conn, nil
}

// prelude returns the statements that precede the first one in a transaction, or a read outside one.
// They set the parameters that differ from the connection's, and now and then they discard its
// plans: the server keeps a plan until autovacuum analyzes the tables, which may take minutes, and a
// plan made when a table was empty scans all of it.
func (e *postgresEngine) prelude(ctx context.Context, conn *pgx.Conn) []statement {
	l := limitsOf(ctx)
	if e.pooler == TransactionPooler { // plans are not kept
		return []statement{{sql: setLocal(transactionSettings(l))}}
	}
	var all []statement
	if l != shortLimits {
		all = append(all, statement{sql: setLocal(limitSettings(l))})
	}
	if e.plansAreOld(conn) {
		all = append(all, statement{sql: "DISCARD PLANS"})
	}
	return all
}

const plannedKey = "planned"

// plansAreOld reports whether a connection has to plan its statements again.
func (e *postgresEngine) plansAreOld(conn *pgx.Conn) bool {
	data := conn.PgConn().CustomData()
	planned, known := data[plannedKey].(time.Time)
	if known && time.Since(planned) < e.replan {
		return false
	}
	data[plannedKey] = time.Now()
	return known
}

func (e *postgresEngine) ping(ctx context.Context) error {
	conn, err := e.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	ctx, cancel := limited(ctx)
	defer cancel()
	return e.explain(explainLimit(ctx, conn.Ping(ctx)))
}

// explain is explainPostgres, and turns the pool's own error after close into errClosed.
func (e *postgresEngine) explain(err error) error {
	if err != nil && e.closed.Load() {
		return errClosed
	}
	return explainPostgres(err)
}

func (e *postgresEngine) close() error {
	e.closed.Store(true)
	e.pool.Close() // waits for connections in use
	return nil
}

// query runs a statement outside a transaction. A prelude runs in one transaction with it, since we
// send them together.
func (e *postgresEngine) query(ctx context.Context, sql string, args []any) (Rows, error) {
	conn, err := e.acquire(ctx)
	if err != nil {
		return nil, err
	}
	s := &postgresSession{conn: conn.Conn(), prelude: e.prelude(ctx, conn.Conn())}
	rows, err := s.query(ctx, sql, args)
	if err != nil {
		conn.Release()
		return nil, err
	}
	rows.(*postgresRows).release = func(ctx context.Context) { release(ctx, conn) }
	return rows, nil
}

// release returns a connection to the pool. If its context has ended, it closes the connection: pgx may still
// be reading in the background, and the deadline that pgx sets would fail the next statement.
func release(ctx context.Context, conn *pgxpool.Conn) {
	if ctx.Err() != nil {
		_ = conn.Conn().Close(ctx)
	}
	conn.Release()
}

// postgresRows returns this package's errors. When the rows end, it closes the batch that they came
// in, stops their timer, and returns a connection acquired for them to the pool.
type postgresRows struct {
	pgx.Rows
	ctx     context.Context
	cancel  context.CancelFunc
	batch   pgx.BatchResults
	release func(context.Context)
	err     error
	closed  bool
}

func (r *postgresRows) Next() bool {
	if r.closed {
		return false
	}
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *postgresRows) Err() error {
	if r.closed {
		return r.err
	}
	return explainPostgres(explainLimit(r.ctx, r.Rows.Err()))
}

func (r *postgresRows) Close() {
	if r.closed {
		return
	}
	r.Rows.Close()
	if r.batch != nil {
		_ = r.batch.Close() // repeats the rows' error
	}
	r.err = r.Err()
	r.closed = true
	if r.release != nil {
		r.release(r.ctx)
	}
	r.cancel()
}

// write runs fn until it commits or fails. It retries only if the server asks for that: after a lost
// connection the server may be away for long, and the caller knows better whether to wait.
func (e *postgresEngine) write(ctx context.Context, fn func(*Tx) error) (*Tx, error) {
	began := time.Now()
	for try := 1; ; try++ {
		t, err := e.attempt(ctx, fn)
		if err == nil {
			e.db.observer.commit(1, time.Since(began))
			return t, nil
		}
		retry := mustRetry(err) || t != nil && mustRetry(t.failed) // fn may have replaced the error
		if !retry {
			return nil, err
		}
		if try == maxTries {
			return nil, errs.Unavailablef(err, "too many writes to the same rows")
		}
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
	}
}

// pause waits for a random time, which grows with each try, so that transactions that collided do
// not collide again.
func pause(ctx context.Context, try int) error {
	limit := min(time.Millisecond<<try, 250*time.Millisecond)
	return sleep(ctx, rand.N(limit))
}

// sleep returns after d, or with ctx's error if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *postgresEngine) attempt(ctx context.Context, fn func(*Tx) error) (*Tx, error) {
	conn, err := e.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release(ctx, conn)
	s := e.session(ctx, conn, "BEGIN")
	defer s.rollback()
	t := newTx(ctx, e.db, s, nil)
	if err := t.run(fn); err != nil {
		return t, err
	}
	err = s.commit()
	if IsOutcomeUnknown(err) {
		e.db.notifyWatchers(t.invalidated...) // it may have committed
	}
	if err == nil {
		err = s.scanned
	}
	return t, err
}

// session returns a transaction that has yet to begin.
func (e *postgresEngine) session(ctx context.Context, conn *pgxpool.Conn, begin string) *postgresSession {
	prelude := append([]statement{{sql: begin}}, e.prelude(ctx, conn.Conn())...)
	return &postgresSession{conn: conn.Conn(), prelude: prelude, end: limitsOf(ctx).respond}
}

// postgresSession is a transaction on a pooled connection, or a single statement.
type postgresSession struct {
	conn *pgx.Conn
	// prelude has the statements that begin the transaction. They travel with the first statement.
	prelude []statement
	// pending has the statements passed to Send. They travel with the next statement or with COMMIT,
	// and need no round trip for themselves.
	pending []statement
	// scanned is the error from the first pending statement whose row we could not scan.
	scanned error
	// end bounds COMMIT and ROLLBACK. They ignore the caller's context: if it ended them, we would
	// not know their outcome.
	end time.Duration
}

type statement struct {
	sql  string
	args []any
	into *Result // nil if nobody needs the result
}

func (s *postgresSession) begun() bool { return s.conn.PgConn().TxStatus() != 'I' }

func (s *postgresSession) send(_ context.Context, r *Result, sql string, args []any) error {
	s.pending = append(s.pending, statement{sql, args, r})
	return nil
}

func (s *postgresSession) exec(ctx context.Context, sql string, args []any) (int64, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	tag, err := s.run(ctx, sql, args)
	return tag.RowsAffected(), explainPostgres(explainLimit(ctx, err))
}

// run runs a statement, with everything that must be sent before it.
func (s *postgresSession) run(ctx context.Context, sql string, args []any) (pgconn.CommandTag, error) {
	if s.alone() {
		return s.conn.Exec(ctx, sql, args...)
	}
	results, err := s.batch(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	if err != nil {
		_ = results.Close() // repeats err
		return tag, err
	}
	return tag, results.Close()
}

// alone reports whether nothing must be sent before the next statement.
func (s *postgresSession) alone() bool {
	return len(s.pending) == 0 && len(s.prelude) == 0
}

func (s *postgresSession) query(ctx context.Context, sql string, args []any) (Rows, error) {
	ctx, cancel := limited(ctx)
	rows, err := s.rows(ctx, sql, args)
	if err != nil {
		err = explainPostgres(explainLimit(ctx, err))
		cancel()
		return nil, err
	}
	rows.ctx = ctx
	rows.cancel = cancel
	return rows, nil
}

func (s *postgresSession) rows(ctx context.Context, sql string, args []any) (*postgresRows, error) {
	if s.alone() {
		rows, err := s.conn.Query(ctx, sql, args...)
		return &postgresRows{Rows: rows}, err
	}
	results, err := s.batch(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // repeats err
		return nil, err
	}
	return &postgresRows{Rows: rows, batch: results}, nil
}

// batch sends the prelude, the pending statements and sql in one round trip. It leaves sql's result
// to be read.
func (s *postgresSession) batch(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
	b := pgx.Batch{}
	before := slices.Concat(s.prelude, s.pending)
	for _, p := range before {
		b.Queue(p.sql, p.args...)
	}
	s.prelude = nil
	s.pending = nil
	b.Queue(sql, args...)
	results := s.conn.SendBatch(ctx, &b)
	for _, p := range before {
		if err := s.read(ctx, p, results); err != nil {
			_ = results.Close() // repeats err
			return nil, err
		}
	}
	return results, nil
}

// commit commits the transaction. If the connection is lost meanwhile, the returned error says that
// the outcome is unknown.
func (s *postgresSession) commit() error {
	if !s.begun() && len(s.pending) == 0 {
		return nil // there was no statement
	}
	takeWarning(s.conn)
	tag, err := s.finish("COMMIT")
	if err != nil {
		if s.notCommitted(err) {
			return explainPostgres(err)
		}
		return outcomeUnknown(err)
	}
	if tag.String() == "ROLLBACK" {
		return errors.New("db: the server rolled back the transaction")
	}
	// The server warns if it has committed, but stopped waiting for its standbys: after a failover
	// the change may be gone.
	if warning := takeWarning(s.conn); warning != "" {
		return outcomeUnknown(errors.New(warning))
	}
	return nil
}

// notCommitted reports whether COMMIT's error means that nothing was committed.
func (s *postgresSession) notCommitted(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		// After an ERROR the server goes on, without the transaction. A server that ends the
		// connection may have committed first; 40003 is statement_completion_unknown, and class 08
		// comes from a pooler.
		severity := cmp.Or(pg.SeverityUnlocalized, pg.Severity)
		return severity == "ERROR" && pg.Code != "40003" && !strings.HasPrefix(pg.Code, "08")
	}
	return !s.conn.IsClosed() || pgconn.SafeToRetry(err)
}

// rollback rolls back the transaction if it is still open. If that fails, the pool discards the
// connection.
func (s *postgresSession) rollback() {
	s.pending = nil
	if s.conn.IsClosed() || !s.begun() {
		return
	}
	_, _ = s.finish("ROLLBACK")
}

// finish runs COMMIT or ROLLBACK. A deadline on the socket bounds it: for a context with a deadline
// pgx would start a goroutine.
func (s *postgresSession) finish(sql string) (pgconn.CommandTag, error) {
	socket := s.conn.PgConn().Conn()
	_ = socket.SetDeadline(time.Now().Add(s.end))
	defer func() { _ = socket.SetDeadline(time.Time{}) }()
	return s.run(context.Background(), sql, nil)
}
