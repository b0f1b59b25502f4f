package libsql

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"

	"steward/internal/errs"
	"steward/internal/id"
)

// path returns the path of a database's file. It is always below Dir.
func (e *Engine) path(databaseID string) (string, error) {
	if !id.Is(id.Database, databaseID) {
		return "", errs.Missing("database", databaseID)
	}
	return filepath.Join(e.Dir, databaseID, "data.db"), nil
}

// createFile creates an empty database, or returns nil if there is one. Nothing of it is lost with the
// power.
func createFile(path string) error {
	dir := filepath.Dir(path)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // SQLite would make it readable for everybody
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := initialize(path); err != nil {
		return err
	}
	return syncDirs(dir, filepath.Dir(dir))
}

// initialize writes the header of a database. SQLite syncs the file when the last connection closes.
func initialize(path string) error {
	opened, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	c := conn{Conn: opened}
	for _, text := range []string{"PRAGMA page_size = 4096", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA user_version = 0"} {
		if err := c.exec(text); err != nil {
			return errors.Join(err, opened.Close())
		}
	}
	if err := opened.Close(); err != nil {
		return err
	}
	return syncFile(path)
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return f.Sync()
}

func syncDirs(dirs ...string) error {
	for _, dir := range dirs {
		if err := syncFile(dir); err != nil {
			return err
		}
	}
	return nil
}

// removeFiles removes a database. It returns nil if there is none.
func removeFiles(path string) error {
	dir := filepath.Dir(path)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return syncDirs(filepath.Dir(dir))
}

// sweepAge is the age from which a directory without a row is removed. A younger one may belong to a
// database that is being created.
const sweepAge = 10 * time.Minute

// sweep removes the directories of databases that have no row.
func (e *Engine) sweep(ctx context.Context) error {
	entries, err := os.ReadDir(e.Dir) // before the rows, so that a new database is not missed
	if err != nil {
		return err
	}
	ids, err := e.IDs(ctx)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if ids[entry.Name()] || !id.Is(id.Database, entry.Name()) || !e.abandoned(entry) {
			continue
		}
		path, err := e.path(entry.Name())
		if err != nil {
			return err
		}
		if err := removeFiles(path); err != nil {
			return err
		}
		e.Log.Info("removed the files of a deleted database", "database", entry.Name())
	}
	return nil
}

// abandoned reports whether a directory is from before this start, or old. The times of files are less
// exact than the clock.
func (e *Engine) abandoned(entry fs.DirEntry) bool {
	info, err := entry.Info()
	if err != nil {
		return false
	}
	return info.ModTime().Before(e.started.Add(-time.Second)) || e.now().Sub(info.ModTime()) > sweepAge
}
