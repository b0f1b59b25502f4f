package libsql

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"steward/internal/durable"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/sqlite"
)

// path returns the path to a database's file. It is always below Dir.
func (e *Engine) path(databaseID string) (string, error) {
	if !id.Is(id.Database, databaseID) {
		return "", errs.Missing("database", databaseID)
	}
	return filepath.Join(e.Dir, databaseID, "data.db"), nil
}

// createFile creates an empty database, or returns nil if there is one. When it returns, the database
// survives a power failure.
func createFile(path string) error {
	dir := filepath.Dir(path)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // SQLite would make it readable for everyone
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := initialize(path); err != nil {
		return err
	}
	if err := durable.SyncDir(dir); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// initialize writes a database's header. SQLite syncs the file when the last connection closes.
func initialize(path string) error {
	c, err := sqlite.Open(path, []string{"page_size = 4096", "journal_mode = WAL", "synchronous = FULL", "user_version = 0"})
	if err != nil {
		return explainOpen(err)
	}
	return c.Close()
}

// removeFiles removes a database, or returns nil if there is none.
func removeFiles(path string) error {
	dir := filepath.Dir(path)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(dir))
}
