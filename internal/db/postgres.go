package db

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"steward/internal/errs"
)

const (
	defaultMaxConns = 32
	maxTries        = 10
	// endTimeout bounds COMMIT and ROLLBACK. They do not end with the caller's context, which would leave
	// their outcome unknown.
	endTimeout = 30 * time.Second
)

// postgresEngine is the engine for PostgreSQL: a pool of connections.
type postgresEngine struct {
	db     *DB
	pool   *pgxpool.Pool
	closed atomic.Bool
}

func (d *DB) openPostgres(ctx context.Context, o Options) error {
	d.dialect = Postgres
	cfg, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return errors.New("the database URL is not a valid postgres:// URL") // err may contain the password
	}
	cfg.MaxConns = defaultMaxConns
	if o.MaxConns > 0 {
		cfg.MaxConns = int32(o.MaxConns)
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "steward"
	}
	cfg.AfterConnect = preferIndexes
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return explainPostgres(err)
	}
	e := &postgresEngine{db: d, pool: pool}
	if err := e.prepare(ctx); err != nil {
		pool.Close()
		return err
	}
	d.engine = e
	return nil
}

// preferIndexes has the planner use an index wherever there is one. By default it scans small tables,
// and keeps these plans while they grow: of 2,000 receipts that were forwarded in batches of 50, each
// was read 23 times, and once with this setting (TestBatchesReadFewRows).
func preferIndexes(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "SET enable_seqscan = off")
	return err
}

func (e *postgresEngine) prepare(ctx context.Context) error {
	if err := e.ping(ctx); err != nil {
		return err
	}
	var mode string
	// Compatible servers may not have the setting.
	if err := e.pool.QueryRow(ctx, "SHOW synchronous_commit").Scan(&mode); err == nil && mode == "off" {
		return errors.New("the server has synchronous_commit=off: commits would not be durable")
	}
	migrator := stdlib.OpenDBFromPool(e.pool)
	if err := e.db.migrate(ctx, migrator); err != nil {
		return errors.Join(err, migrator.Close())
	}
	return migrator.Close()
}

func (e *postgresEngine) ping(ctx context.Context) error { return e.explain(e.pool.Ping(ctx)) }

// explain is explainPostgres for errors of the pool, which after close has one of its own.
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

func (e *postgresEngine) query(ctx context.Context, sql string, args []any) (Rows, error) {
	rows, err := e.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, e.explain(err)
	}
	return &postgresRows{Rows: rows}, nil
}

// postgresRows are rows with the errors of this package. Closing them also closes the batch that they
// came in, if any.
type postgresRows struct {
	pgx.Rows
	batch pgx.BatchResults
}

func (r *postgresRows) Err() error { return explainPostgres(r.Rows.Err()) }

func (r *postgresRows) Close() {
	r.Rows.Close()
	if r.batch != nil {
		_ = r.batch.Close() // repeats the error of the rows
	}
}

// write runs fn until it commits or fails. It retries only what the server asks to retry: after a lost
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

// pause waits a random time, which grows with each try, so that transactions that collided do not
// collide again.
func pause(ctx context.Context, try int) error {
	limit := min(time.Millisecond<<try, 250*time.Millisecond)
	return sleep(ctx, rand.N(limit))
}

// sleep returns after a time, or with the error of ctx when that ends before.
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
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return nil, e.explain(err)
	}
	defer conn.Release()
	s := &postgresSession{conn: conn.Conn(), begin: "BEGIN"}
	defer s.rollback()
	t := newTx(ctx, e.db, s, nil)
	if err := t.run(fn); err != nil {
		return t, err
	}
	err = s.commit()
	if errs.KindOf(err) == errs.Unavailable {
		e.db.notifyWatchers(t.invalidated...) // it may have committed
	}
	return t, err
}

// postgresSession is a transaction on a connection of the pool.
type postgresSession struct {
	conn *pgx.Conn
	// begin begins the transaction. It is sent with the first statement.
	begin string
	// pending are statements of Send. They are sent with the next statement or with COMMIT, without a
	// round trip of their own.
	pending []statement
}

type statement struct {
	sql  string
	args []any
}

func (s *postgresSession) begun() bool { return s.conn.PgConn().TxStatus() != 'I' }

func (s *postgresSession) send(_ context.Context, sql string, args []any) error {
	s.pending = append(s.pending, statement{sql, args})
	return nil
}

func (s *postgresSession) exec(ctx context.Context, sql string, args []any) (int64, error) {
	if s.begun() && len(s.pending) == 0 {
		tag, err := s.conn.Exec(ctx, sql, args...)
		return tag.RowsAffected(), explainPostgres(err)
	}
	tag, err := s.execBatch(ctx, sql, args)
	return tag.RowsAffected(), explainPostgres(err)
}

func (s *postgresSession) query(ctx context.Context, sql string, args []any) (Rows, error) {
	if s.begun() && len(s.pending) == 0 {
		rows, err := s.conn.Query(ctx, sql, args...)
		if err != nil {
			return nil, explainPostgres(err)
		}
		return &postgresRows{Rows: rows}, nil
	}
	results, err := s.batch(ctx, sql, args)
	if err != nil {
		return nil, explainPostgres(err)
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // repeats err
		return nil, explainPostgres(err)
	}
	return &postgresRows{Rows: rows, batch: results}, nil
}

// batch begins the transaction if there is none yet, and sends the pending statements and sql, all in
// one round trip. The next result to read is that of sql.
func (s *postgresSession) batch(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
	b := pgx.Batch{}
	if !s.begun() {
		b.Queue(s.begin)
	}
	for _, p := range s.pending {
		b.Queue(p.sql, p.args...)
	}
	s.pending = nil
	before := b.Len()
	b.Queue(sql, args...)
	results := s.conn.SendBatch(ctx, &b)
	for range before {
		if _, err := results.Exec(); err != nil {
			_ = results.Close() // repeats err
			return nil, err
		}
	}
	return results, nil
}

func (s *postgresSession) execBatch(ctx context.Context, sql string, args []any) (pgconn.CommandTag, error) {
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

// commit commits the transaction. If the connection is lost here, the outcome is unknown and the error
// says so.
func (s *postgresSession) commit() error {
	if !s.begun() && len(s.pending) == 0 {
		return nil // there was no statement
	}
	tag, err := s.end("COMMIT")
	if err == nil {
		if tag.String() == "ROLLBACK" {
			return errors.New("db: the server rolled back the transaction")
		}
		return nil
	}
	if s.notCommitted(err) {
		return explainPostgres(err)
	}
	return errs.Unavailablef(err, "the connection was lost during the commit: it is not known whether the change was kept")
}

// notCommitted reports whether an error of COMMIT means that nothing was committed.
func (s *postgresSession) notCommitted(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code != "40003" && !isDown(pg.Code) // 40003 is statement_completion_unknown
	}
	return !s.conn.IsClosed()
}

// rollback rolls back the transaction if it is still open. The pool discards a connection on which that
// fails.
func (s *postgresSession) rollback() {
	s.pending = nil
	if s.conn.IsClosed() || !s.begun() {
		return
	}
	_, _ = s.end("ROLLBACK")
}

// end runs COMMIT or ROLLBACK. It bounds the time by a deadline of the socket: for a context with a
// deadline pgx would start a goroutine.
func (s *postgresSession) end(sql string) (pgconn.CommandTag, error) {
	socket := s.conn.PgConn().Conn()
	_ = socket.SetDeadline(time.Now().Add(endTimeout))
	defer func() { _ = socket.SetDeadline(time.Time{}) }()
	if len(s.pending) > 0 {
		return s.execBatch(context.Background(), sql, nil)
	}
	return s.conn.Exec(context.Background(), sql)
}
