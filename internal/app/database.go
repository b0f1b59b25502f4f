package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/app/masterkey"
	"steward/internal/blob"
	"steward/internal/db"
	"steward/internal/disk"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/rotation"
	"steward/internal/seal"
	"steward/internal/status"
)

// database is an open database with the master key that belongs to it.
type database struct {
	db   *db.DB
	ring *seal.Ring
	// blobs has the bytes of objects. It is nil in commands that need none.
	blobs blob.Store
	// dataDisk is the data directory's disk. databaseDisk is the same disk as the database uses it,
	// or nil if the database is on another server.
	dataDisk, databaseDisk *disk.Space
	// node tells our data directory from other replicas' directories.
	node string
	// processID names this process among those that use the database.
	processID string
	// unneededKeys has the IDs of old master keys that no longer seal anything.
	unneededKeys []string
}

// openDatabase opens the database and checks that it was written with our master key.
func openDatabase(ctx context.Context, cfg config.Config, observer db.Observer) (*database, error) {
	key, err := masterkey.ForStart(ctx, cfg)
	if err != nil {
		return nil, err
	}
	options := cfg.Database()
	options.Observer = observer
	options.Reserve = max(cfg.DiskReserve, 1) // 0 is the default
	d, err := db.Open(ctx, options)
	if err != nil {
		return nil, err
	}
	processID := id.New("rep")
	unneeded, err := admit(ctx, &status.Processes{DB: d, Now: time.Now, ID: processID, KeyID: key.Ring.KeyID()}, key)
	if err != nil {
		d.Close()
		return nil, err
	}
	node, err := datadir.Node(cfg.Data, d.Dialect())
	if err != nil {
		d.Close()
		return nil, err
	}
	opened := &database{
		db: d, ring: key.Ring, node: node, dataDisk: &disk.Space{Dir: cfg.Data, Reserve: cfg.DiskReserve},
		processID: processID, unneededKeys: unneeded,
	}
	if d.Dialect() == db.SQLite {
		opened.databaseDisk = &disk.Space{
			Dir: cfg.Data, Reserve: cfg.DiskReserve,
			Reusable: func() (int64, error) { return d.Reusable(context.WithoutCancel(ctx)) },
		}
	}
	return opened, nil
}

// admit checks this process's master key and tells others that it runs, in one transaction: a
// rotation of the master key that begins meanwhile either knows about this process, or this process
// about it.
func admit(ctx context.Context, p *status.Processes, key masterkey.Start) (unneeded []string, err error) {
	err = p.DB.Write(ctx, func(tx *db.Tx) error {
		if unneeded, err = key.Admit(tx); err != nil {
			return err
		}
		if err := rotation.CheckOldKeys(tx, key.Ring); err != nil || tx.Dialect() == db.SQLite {
			return err
		}
		return p.Announce(tx)
	})
	return unneeded, err
}

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
