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

// Both folders have the same file names, and make the same tables; a test sees to it.
//
//go:embed migrations/sqlite/*.sql migrations/postgres/*.sql
var migrations embed.FS

// migrate brings the schema up to date. A start on a schema that is already so costs one query.
func (d *DB) migrate(ctx context.Context, pool *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations/"+d.dialect.String())
	if err != nil {
		return err
	}
	known, count, err := newest(files)
	if err != nil {
		return err
	}
	has, applied, err := schemaVersion(ctx, pool)
	if err != nil {
		return err
	}
	switch {
	case has > known:
		return fmt.Errorf("the schema has version %d, but this binary knows only versions up to %d: it was written by a newer Steward",
			has, known)
	case has == known && applied == count:
		return nil
	}
	return d.up(ctx, pool, files)
}

// newest is the highest number of a migration that this binary has, and how many there are.
func newest(files fs.FS) (version int64, count int, err error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil || len(names) == 0 {
		return 0, 0, errors.Join(err, errors.New("no migrations"))
	}
	number, _, _ := strings.Cut(names[len(names)-1], "_")
	version, err = strconv.ParseInt(number, 10, 64)
	return version, len(names), err
}

// schemaVersion is the highest migration that was applied, and how many were; 0 for an empty database.
func schemaVersion(ctx context.Context, pool *sql.DB) (version int64, applied int, err error) {
	err = pool.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0), count(DISTINCT version_id) FROM "+goose.DefaultTablename+
		" WHERE version_id > 0").Scan(&version, &applied) // goose notes a version 0 for itself
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "42P01" || err != nil && strings.Contains(err.Error(), "no such table") {
		return 0, 0, nil
	}
	return version, applied, explainPostgres(explainSQLite(err))
}

// up runs goose, also for a migration whose number is lower than one that was applied: parts of the product are built side by side, and
// their tables do not depend on each other. Replicas that start at once take turns by a lock in a table. Making goose's own tables is
// not safe against another who does the same at that moment (IF NOT EXISTS is not), so who loses tries again.
func (d *DB) up(ctx context.Context, pool *sql.DB, files fs.FS) error {
	for try := 1; ; try++ {
		provider, err := d.provider(pool, files)
		if err != nil {
			return err
		}
		_, err = provider.Up(ctx)
		if err == nil || try == maxTries || !raced(err) {
			return err
		}
		if err := pause(ctx, try+4); err != nil {
			return err
		}
	}
}

func raced(err error) bool {
	var pg *pgconn.PgError
	return IsUnique(err) || mustRetry(err) || errors.As(err, &pg) && (pg.Code == "42P07" || pg.Code == "42710")
}

func (d *DB) provider(pool *sql.DB, files fs.FS) (*goose.Provider, error) {
	if d.dialect == SQLite {
		return goose.NewProvider(goose.DialectSQLite3, pool, files, goose.WithAllowOutofOrder(true), goose.WithLogger(goose.NopLogger()))
	}
	locker, err := lock.NewPostgresTableLocker(
		lock.WithTableLockTimeout(200*time.Millisecond, 600),
		lock.WithTableUnlockTimeout(200*time.Millisecond, 50),
		lock.WithTableLogger(d.log),
	)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, pool, files, goose.WithLocker(locker), goose.WithAllowOutofOrder(true),
		goose.WithLogger(goose.NopLogger()))
}
