package db

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Both folders have the same file names and create the same tables, which a test verifies. There is
// one file per slice at first; since then, files are only added.
//
//go:embed migrations/sqlite/*.sql migrations/postgres/*.sql
var migrations embed.FS

// migrate brings the schema up to date. It returns an error if the schema is newer than this binary.
// If there is nothing to do, it costs one query.
func (d *DB) migrate(ctx context.Context, pool *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations/"+d.dialect.String())
	if err != nil {
		return err
	}
	newest, err := newestMigration(files)
	if err != nil {
		return err
	}
	applied, err := schemaVersion(ctx, pool)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	switch {
	case applied > newest:
		return fmt.Errorf("the schema has version %d, but this binary supports only versions up to %d: "+
			"it was written by a newer Steward", applied, newest)
	case applied == newest:
		return nil
	}
	return d.up(ctx, pool, files)
}

// newestMigration returns the highest number of a migration in files.
func newestMigration(files fs.FS) (int64, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return 0, err
	}
	if len(names) == 0 {
		return 0, errors.New("no migrations")
	}
	number, _, _ := strings.Cut(names[len(names)-1], "_")
	return strconv.ParseInt(number, 10, 64)
}

// schemaVersion returns the number of the last applied migration, 0 for an empty database.
func schemaVersion(ctx context.Context, pool *sql.DB) (version int64, err error) {
	err = pool.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM "+goose.DefaultTablename).Scan(&version)
	if isUndefinedTable(err) {
		return 0, nil
	}
	return version, explainPostgres(explainSQLite(err))
}

// isUndefinedTable reports whether a query named a table that does not exist.
func isUndefinedTable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "42P01"
	}
	return err != nil && strings.Contains(err.Error(), "no such table")
}

// up runs goose. Replicas that start at the same time wait for each other by a lock in a table. The
// creation of goose's own tables is not covered by that lock, and IF NOT EXISTS does not prevent the
// race, so the loser tries again.
func (d *DB) up(ctx context.Context, pool *sql.DB, files fs.FS) error {
	for try := 1; ; try++ {
		provider, err := d.provider(pool, files)
		if err != nil {
			return err
		}
		_, err = provider.Up(ctx)
		if err == nil || try == maxTries || !isCreateRace(err) {
			return err
		}
		if err := pause(ctx, try+4); err != nil {
			return err
		}
	}
}

// isCreateRace reports whether another process created the same table at the same time.
func isCreateRace(err error) bool {
	if IsUnique(err) || mustRetry(err) {
		return true
	}
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "42P07" || pg.Code == "42710")
}

func (d *DB) provider(pool *sql.DB, files fs.FS) (*goose.Provider, error) {
	if d.dialect == SQLite {
		return goose.NewProvider(goose.DialectSQLite3, pool, files, goose.WithLogger(goose.NopLogger()))
	}
	locker, err := lock.NewPostgresTableLocker(
		lock.WithTableLockTimeout(200*time.Millisecond, 600),
		lock.WithTableUnlockTimeout(200*time.Millisecond, 50),
		lock.WithTableLogger(d.log),
	)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, pool, files, goose.WithLocker(locker),
		goose.WithLogger(goose.NopLogger()))
}
