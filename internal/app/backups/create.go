package backups

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"steward/internal/app/blobs"
	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/app/masterkey"
	"steward/internal/app/operator"
	"steward/internal/backup"
	"steward/internal/db"
	"steward/internal/db/move"
	"steward/internal/durable"
	"steward/internal/errs"
	"steward/internal/id"
)

// writeBackup writes a backup to w. The server that uses the data directory makes it; if none runs,
// this process does.
func writeBackup(ctx context.Context, cfg config.Config, version string, w io.Writer, r Request) error {
	err := ask(ctx, cfg.Data, w, r)
	if !errors.Is(err, operator.ErrNoServer) {
		return err
	}
	d, closeAll, err := operator.Open(ctx, cfg, true)
	if err != nil {
		return err
	}
	defer closeAll()
	source, err := newSource(ctx, d, cfg, version)
	if err != nil {
		return err
	}
	lease := source.exclusive(id.New("bak")) // other replicas may run
	return lease.Hold(ctx, func(ctx context.Context) error { return source.Write(ctx, w, r) })
}

// newSource returns an installation whose data directory no server uses.
func newSource(ctx context.Context, d *db.DB, cfg config.Config, version string) (*Source, error) {
	if err := move.CheckHere(d.Read(ctx)); err != nil {
		return nil, err
	}
	ring, err := masterkey.Existing(ctx, d, cfg)
	if err != nil {
		return nil, err
	}
	node, err := datadir.Node(cfg.Data, d.Dialect())
	if err != nil {
		return nil, err
	}
	store, err := blobs.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	last, _ := datadir.ReadAddresses(cfg.Data) // from the last start, if there was one here
	return &Source{
		DB: d, Blobs: store, Config: cfg, Node: node, Version: version, BaseURL: cmp.Or(cfg.BaseURL, last.BaseURL), KeyID: ring.KeyID(),
		Now: time.Now,
	}, nil
}

// createFile makes a backup in a file, which gets its name only when it is complete and on disk.
func createFile(ctx context.Context, path string, e backup.Encryption, write func(context.Context, io.Writer) error) (size int64, err error) {
	if _, err := os.Lstat(path); err == nil {
		return 0, errs.New(errs.Conflict, "%s exists; give the backup another name", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return 0, fmt.Errorf("create the file: %w", err)
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name()) // it is gone if it was renamed
	}()
	encrypted, err := e.Encrypt(f)
	if err != nil {
		return 0, err
	}
	if err := write(ctx, encrypted); err != nil {
		return 0, err
	}
	if err := encrypted.Close(); err != nil {
		return 0, fmt.Errorf("write the file: %w", err)
	}
	if err := f.Sync(); err != nil {
		return 0, fmt.Errorf("write the file: %w", err)
	}
	if size, err = f.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	if err := os.Link(f.Name(), path); err != nil { // unlike a rename, it replaces nothing
		return 0, fmt.Errorf("name the file: %w", err)
	}
	return size, durable.SyncDir(filepath.Dir(path))
}
