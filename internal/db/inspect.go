package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
)

// State describes a database, as Inspect found it.
type State struct {
	Dialect Dialect
	Version string // the engine's
	Schema  int64  // the last migration applied; 0 for an empty database
	Newest  int64  // this binary's last migration
	Oldest  int64  // the last migration that a binary must know to serve the schema
	// Skew is how far the database server's clock is ahead of ours. It is 0 on SQLite.
	Skew time.Duration
	// Concerns lists problems with a PostgreSQL server.
	Concerns []Concern
	// Writer is the oldest open transaction that writes on the PostgreSQL server, in any database;
	// nil if there is none.
	Writer *Writer
	// Meta is the value that Tx.Once stored under Inspect's key, or "".
	Meta string
}

// Inspect reads a database's state and changes nothing: it does not migrate, and the SQLite file
// must exist. The key is one of Tx.Once.
func Inspect(ctx context.Context, o Options, key string) (State, error) {
	pool, state, err := openInspection(o)
	if err != nil {
		return state, err
	}
	err = state.read(ctx, pool, o, key)
	return state, errors.Join(explainPostgres(explainSQLite(err)), pool.Close())
}

func openInspection(o Options) (*sql.DB, State, error) {
	if o.URL == "" {
		dsn := url.URL{Scheme: "file", OmitHost: true, Path: o.Path, RawQuery: "mode=ro&_pragma=busy_timeout(5000)"}
		pool, err := sql.Open("sqlite", dsn.String())
		return pool, State{Dialect: SQLite}, err
	}
	cfg, err := poolConfig(o)
	if err != nil {
		return nil, State{}, err
	}
	return stdlib.OpenDB(*cfg.ConnConfig), State{Dialect: Postgres}, nil
}

func (s *State) read(ctx context.Context, pool *sql.DB, o Options, key string) error {
	pool.SetMaxOpenConns(1)
	if err := s.readEngine(ctx, pool); err != nil {
		return err
	}
	all, err := listMigrations(migrationFiles())
	if err != nil {
		return err
	}
	s.Newest = all[len(all)-1].number
	applied, err := appliedMigrations(ctx, pool)
	if err != nil {
		return err
	}
	s.Schema = lastOf(applied)
	if s.Dialect == Postgres {
		if err := s.readServer(ctx, pool, o); err != nil {
			return fmt.Errorf("read settings: %w", err)
		}
	}
	if s.Schema == 0 {
		return nil
	}
	if s.Oldest, err = oldestSchema(ctx, pool); err != nil {
		return fmt.Errorf("read the oldest schema: %w", err)
	}
	err = pool.QueryRowContext(ctx, `SELECT value FROM meta WHERE key = $1`, key).Scan(&s.Meta)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("read %s: %w", key, err)
	}
	return nil
}

func (s *State) readEngine(ctx context.Context, pool *sql.DB) error {
	if s.Dialect == SQLite {
		return pool.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&s.Version)
	}
	var now time.Time
	if err := pool.QueryRowContext(ctx, `SELECT current_setting('server_version'), clock_timestamp()`).Scan(&s.Version, &now); err != nil {
		return err
	}
	s.Skew = time.Until(now)
	return nil
}

// readServer reads the concerns, in a transaction with our usual settings.
func (s *State) readServer(ctx context.Context, pool *sql.DB, o Options) error {
	tx, err := pool.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, setLocal(transactionSettings(shortLimits))); err != nil {
		return err
	}
	var server serverSettings
	if err := tx.QueryRowContext(ctx, readServer).Scan(server.fields()...); err != nil {
		return err
	}
	if s.Schema > 0 {
		alive := time.Now().Add(-aliveFor).UnixMicro()
		if err := tx.QueryRowContext(ctx, countProcesses, alive).Scan(&server.replicas); err != nil {
			return err
		}
	}
	s.Concerns = server.concerns(o)
	var w Writer
	switch err := tx.QueryRowContext(ctx, readWriter).Scan(&w.ID, &w.Name, &w.Since); {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return err
	default:
		s.Writer = &w
	}
	return nil
}

// Writer is an open transaction that writes. Live tails show no event that is newer.
type Writer struct {
	ID   string // transaction id
	Name string // process or prepared transaction, with its user and database
	// Since is when it began, or nil if our role may not see that.
	Since *time.Time
}

// readWriter reads the oldest transaction with an id. Every role sees others' ids, but not when they
// began.
const readWriter = `SELECT id, name, since FROM (
	SELECT backend_xid AS xid, CAST(backend_xid AS TEXT) AS id, xact_start AS since,
		concat('process ', pid, ' (user ', usename, ', database ', datname, ', application ', NULLIF(application_name, ''), ')') AS name
	FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
	UNION ALL
	SELECT transaction, CAST(transaction AS TEXT), prepared,
		concat('the prepared transaction ', quote_literal(gid), ' (user ', owner, ', database ', database, ')')
	FROM pg_prepared_xacts) AS writers ORDER BY age(xid) DESC LIMIT 1`
