package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/dustin/go-humanize"
	"zombiezen.com/go/sqlite"

	"steward/internal/disk"
)

// migrateSQLite brings the schema up to date, while nothing else has the file open. It uses
// database/sql, as on PostgreSQL. If a migration is due, it checks the file first, and only reads
// until the check has passed.
func (d *DB) migrateSQLite(ctx context.Context, path string, o Options) error {
	files := o.migrations()
	reading, err := openSQLitePool(path, url.Values{"mode": {"ro"}})
	if err != nil {
		return err
	}
	defer func() { _ = reading.Close() }() // it has written nothing
	left, err := missing(ctx, reading, files)
	if isDamage(err) {
		return damaged(err.Error())
	}
	if err != nil || len(left) == 0 {
		return err
	}
	if err := checkFile(ctx, reading); err != nil {
		return err
	}
	if err := checkSpace(path, o); err != nil {
		return err
	}
	if !hasLog(path) {
		_ = reading.Close() // so the writer closes last and removes an unused log
	}
	writing, err := openSQLitePool(path, url.Values{"_txlock": {"immediate"}, "_pragma": writerPragmas})
	if err != nil {
		return err
	}
	return errors.Join(d.migrate(ctx, writing, files), writing.Close())
}

// openSQLitePool opens a file for one connection at a time.
func openSQLitePool(path string, query url.Values) (*sql.DB, error) {
	query["_pragma"] = append([]string{"busy_timeout(10000)"}, query["_pragma"]...)
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query.Encode()}
	pool, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(1)
	return pool, nil
}

// hasLog reports whether a killed process has left a write-ahead log. While another connection has
// the file open, the writer does not copy the log into the file when it closes, so that a failing
// migration leaves both as they were.
func hasLog(path string) bool {
	info, err := os.Stat(path + "-wal")
	return err == nil && info.Size() > 0
}

// checkFile reads the whole file and returns an error if it is damaged.
func checkFile(ctx context.Context, pool *sql.DB) error {
	var result string
	err := pool.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&result)
	switch {
	case isDamage(err):
		return damaged(err.Error())
	case err != nil:
		return fmt.Errorf("check the database: %w", explainSQLite(err))
	case result != "ok":
		return damaged(result)
	}
	return nil
}

// isDamage reports whether the file is damaged, or not a database.
func isDamage(err error) bool {
	code := sqliteCode(err).ToPrimary()
	return code == sqlite.ResultCorrupt || code == sqlite.ResultNotADB
}

func damaged(how string) error {
	return fmt.Errorf("the database is damaged and is not migrated: %s. Nothing was changed: "+
		"restore a backup, or start the version of Steward that was used before", how)
}

// checkSpace returns an error if the disk is nearly full.
func checkSpace(path string, o Options) error {
	if info, err := os.Stat(path); err == nil && info.Size() == 0 {
		return nil // a new file, whose schema is small
	}
	reserve := o.Reserve
	if reserve == 0 {
		reserve = disk.Reserve
	}
	free, err := disk.Free(filepath.Dir(path))
	if err != nil || free >= reserve {
		return err
	}
	return fmt.Errorf("only %s are free on the disk and a migration needs at least %s. Nothing was changed: "+
		"free some space and start again", humanize.IBytes(uint64(free)), humanize.IBytes(uint64(reserve)))
}
