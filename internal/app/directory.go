package app

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/errs"
)

// checkDirectory returns Conflict if we would create a SQLite database in a data directory that
// belongs to a PostgreSQL database: forgetting --database-url would otherwise give a new, empty
// installation.
func checkDirectory(cfg config.Config) error {
	if cfg.DatabaseURL != "" || cfg.Force {
		return nil
	}
	if _, err := os.Stat(datadir.DatabaseFile(cfg.Data)); !errors.Is(err, fs.ErrNotExist) {
		return nil // there is one
	}
	if _, err := os.Stat(filepath.Join(cfg.Data, "node")); err != nil {
		return nil
	}
	return errs.New(errs.Conflict, "the data directory %s was used with a PostgreSQL database: set --database-url, or --force to create "+
		"a new installation in it", cfg.Data)
}
