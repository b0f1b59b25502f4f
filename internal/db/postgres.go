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
	// endTimeout bounds COMMIT and ROLLBACK, which must not end with the caller's context: the outcome would not be known.
	endTimeout = 30 * time.Second
)

// elephant is the engine for PostgreSQL: a pool.
type elephant struct {
	db     *DB
	pool   *pgxpool.Pool
	closed atomic.Bool
}

func (d *DB) openPostgres(ctx context.Context, o Options) error {
	d.dialect = Postgres
	cfg, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return errors.New("the database URL is not a postgres:// URL that can be understood") // err may quote the password
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
	e := &elephant{db: d, pool: pool}
	if err := e.prepare(ctx); err != nil {
		pool.Close()
		return err
	}
	d.engine = e
	return nil
}

// preferIndexes has the planner use an index wherever there is one. By itself it scans tables that are small, and keeps these plans
// while they grow: of a webhook that forwards 2,000 receipts in batches of 50, each receipt was read 23 times, and once with it.
func preferIndexes(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "SET enable_seqscan = off")
	return err
}

func (e *elephant) prepare(ctx context.Context) error {
	if err := e.ping(ctx); err != nil {
		return err
	}
	var mode string
	// A server that does not know the setting is not asked to have it.
	if err := e.pool.QueryRow(ctx, "SHOW synchronous_commit").Scan(&mode); err == nil && mode == "off" {
		return errors.New("the server has synchronous_commit=off: an answer would not mean that a write is durable")
	}
	migrator := stdlib.OpenDBFromPool(e.pool)
	defer migrator.Close()
	return e.db.migrate(ctx, migrator)
}

func (e *elephant) ping(ctx context.Context) error { return e.explain(e.pool.Ping(ctx)) }

// explain is explainPostgres for what the pool answers, which after close is an error of its own.
func (e *elephant) explain(err error) error {
	if err != nil && e.closed.Load() {
		return errClosed
	}
	return explainPostgres(err)
}

func (e *elephant) close() error {
	e.closed.Store(true)
	e.pool.Close() // waits for connections that are out
	return nil
}

func (e *elephant) query(ctx context.Context, sql string, args []any) (Rows, error) {
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

// write runs fn until it commits, or fails for a reason of its own. What was lost before the commit is not tried again here: the
// server may be away for long, and the caller knows better whether to wait.
func (e *elephant) write(ctx context.Context, fn func(*Tx) error) (*Tx, error) {
	began := time.Now()
	for try := 1; ; try++ {
		t, err := e.attempt(ctx, fn)
		if err == nil {
			e.db.observer.commit(1, time.Since(began))
			return t, nil
		}
		if !mustRetry(err) && (t == nil || !mustRetry(t.spoiled)) {
			return nil, err
		}
		if try == maxTries {
			return nil, errs.Busy(err, "too many writes to the same rows")
		}
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
	}
}

// pause waits a random time that grows with each try, so that those who collided do not meet again.
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

func (e *elephant) attempt(ctx context.Context, fn func(*Tx) error) (*Tx, error) {
	conn, err := e.pool.Acquire(ctx)
	if err != nil {
		return nil, e.explain(err)
	}
	defer conn.Release()
	s := &pgSession{conn: conn.Conn()}
	defer s.rollback()
	t := newTx(e.db, s, ctx, nil)
	if err := t.run(fn); err != nil {
		return t, err
	}
	err = s.commit()
	if errs.KindOf(err) == errs.Unavailable {
		e.db.bumped(t.bumps...) // it may have committed
	}
	return t, err
}

// pgSession is one transaction on a connection of the pool.
type pgSession struct {
	conn *pgx.Conn
	// waiting are statements of Send, which go with the next one, or with COMMIT: no round trip of their own.
	waiting []statement
}

type statement struct {
	sql  string
	args []any
}

func (s *pgSession) begun() bool { return s.conn.PgConn().TxStatus() != 'I' }

func (s *pgSession) send(_ context.Context, sql string, args []any) error {
	s.waiting = append(s.waiting, statement{sql, args})
	return nil
}

func (s *pgSession) exec(ctx context.Context, sql string, args []any) (int64, error) {
	if s.begun() && len(s.waiting) == 0 {
		tag, err := s.conn.Exec(ctx, sql, args...)
		return tag.RowsAffected(), explainPostgres(err)
	}
	tag, err := s.together(ctx, sql, args)
	return tag.RowsAffected(), explainPostgres(err)
}

func (s *pgSession) query(ctx context.Context, sql string, args []any) (Rows, error) {
	if s.begun() && len(s.waiting) == 0 {
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
		results.Close()
		return nil, explainPostgres(err)
	}
	return &postgresRows{Rows: rows, batch: results}, nil
}

// batch sends BEGIN if there was none yet, then what waits, then the statement, in one round trip. Its result is the next to read.
func (s *pgSession) batch(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
	b := pgx.Batch{}
	if !s.begun() {
		b.Queue("BEGIN")
	}
	for _, w := range s.waiting {
		b.Queue(w.sql, w.args...)
	}
	s.waiting = nil
	before := b.Len()
	b.Queue(sql, args...)
	results := s.conn.SendBatch(ctx, &b)
	for range before {
		if _, err := results.Exec(); err != nil {
			results.Close()
			return nil, err
		}
	}
	return results, nil
}

func (s *pgSession) together(ctx context.Context, sql string, args []any) (pgconn.CommandTag, error) {
	results, err := s.batch(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	if e := results.Close(); err == nil { // it repeats the error of the statement, if there was one
		err = e
	}
	return tag, err
}

// commit ends the transaction well. A connection lost here leaves the outcome unknown, and the error says so.
func (s *pgSession) commit() error {
	if !s.begun() && len(s.waiting) == 0 {
		return nil // no statement ran
	}
	tag, err := s.end("COMMIT")
	var pg *pgconn.PgError
	switch {
	case err == nil && tag.String() == "ROLLBACK":
		return errors.New("db: the server rolled the transaction back")
	case err == nil:
		return nil
	case errors.As(err, &pg) && pg.Code != "40003" && !isDown(pg.Code), !s.conn.IsClosed() && pg == nil:
		return explainPostgres(err)
	}
	return errs.Busy(err, "the connection was lost during the commit: it is not known whether the change was kept")
}

// rollback ends the transaction if it is still open; a connection that cannot do so is thrown away by the pool.
func (s *pgSession) rollback() {
	s.waiting = nil
	if s.conn.IsClosed() || !s.begun() {
		return
	}
	_, _ = s.end("ROLLBACK")
}

// end bounds the time by a deadline of the socket: for a context that can end, pgx would start a goroutine.
func (s *pgSession) end(sql string) (pgconn.CommandTag, error) {
	socket := s.conn.PgConn().Conn()
	_ = socket.SetDeadline(time.Now().Add(endTimeout))
	defer func() { _ = socket.SetDeadline(time.Time{}) }()
	if len(s.waiting) > 0 {
		return s.together(context.Background(), sql, nil)
	}
	return s.conn.Exec(context.Background(), sql)
}
