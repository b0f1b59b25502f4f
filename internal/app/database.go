package app

import (
	"context"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/app/masterkey"
	"steward/internal/blob"
	"steward/internal/db"
	"steward/internal/disk"
	"steward/internal/seal"
)

// database is an open database with the master key that belongs to it.
type database struct {
	db   *db.DB
	ring *seal.Ring
	// blobs has the bytes of objects. It is nil in commands that need none.
	blobs blob.Store
	// dataDisk is the disk of the data directory. databaseDisk is the same as the database uses it, or nil
	// if that is on another server.
	dataDisk, databaseDisk *disk.Space
	// node identifies the data directory among those of other replicas.
	node string
}

// openDatabase opens the database and checks that the master key is the one it was written with.
func openDatabase(ctx context.Context, cfg config.Config, observer db.Observer) (*database, error) {
	ring, err := masterkey.Ring(cfg)
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
	if err := masterkey.Check(ctx, d, ring); err != nil {
		d.Close()
		return nil, err
	}
	node := "local" // a database in the data directory has no other replicas
	if d.Dialect() == db.Postgres {
		if node, err = datadir.NodeID(cfg.Data); err != nil {
			d.Close()
			return nil, err
		}
	}
	opened := &database{db: d, ring: ring, node: node, dataDisk: &disk.Space{Dir: cfg.Data, Reserve: cfg.DiskReserve}}
	if d.Dialect() == db.SQLite {
		opened.databaseDisk = &disk.Space{
			Dir: cfg.Data, Reserve: cfg.DiskReserve,
			Reusable: func() (int64, error) { return d.Reusable(context.WithoutCancel(ctx)) },
		}
	}
	return opened, nil
}
