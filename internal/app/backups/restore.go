package backups

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"steward/internal/app/blobs"
	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/app/inventory"
	"steward/internal/app/masterkey"
	"steward/internal/backup"
	"steward/internal/blob"
	"steward/internal/cli/session"
	"steward/internal/db"
	"steward/internal/db/tablecopy"
	"steward/internal/durable"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/seal"
)

const (
	// insertRows and insertBytes bound a transaction's rows.
	insertRows  = 1000
	insertBytes = 4 << 20
	// smallBlob is the largest blob that we hold in memory, to write several at once.
	smallBlob    = 256 << 10
	blobsAtOnce  = 16
	maxKeyLength = 64
)

// Restored is a restore's result.
type Restored struct {
	Header backup.Header
	inventory.Inventory
	Blobs    int64
	Files    int // databases and key-value stores
	Warnings []string
	// KeyWritten reports whether the restore wrote the master key into the data directory.
	KeyWritten bool
}

// restore restores a backup. Until it ends, nobody else opens its database.
type restore struct {
	cfg config.Config
	// program asks for the master key if the backup does not have it.
	program session.Program
	// from has the blobs that are kept outside the backup, or is nil.
	from *repository

	in       *backup.Reader
	key      []byte
	ring     *seal.Ring
	writeKey bool
	db       *db.DB // nil until the master key is known
	begun    bool   // true once we have written to the database
	store    blob.Store
	node     string
	contents *contents
	// sums has the checksums of the rows that we wrote.
	sums  map[string]*tablecopy.Sum
	batch batch
	group *errgroup.Group
	ctx   context.Context // the group's
}

// batch has a table's rows that are not written yet.
type batch struct {
	table tablecopy.Table
	rows  [][]any
	bytes int
}

// run restores a backup into an empty data directory, and an empty database if one is configured. It
// returns nil only after comparing everything that it wrote with the backup. If it fails, it empties
// the directory again.
func (r *restore) run(ctx context.Context) (*Restored, error) {
	if err := checkHeader(r.in.Header()); err != nil {
		return nil, err
	}
	lock, err := datadir.Acquire(r.cfg.Data)
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	left, err := r.files()
	if err == nil && len(left) > 0 {
		err = errs.New(errs.Conflict, "%s is not empty; restore into a new directory with --data", r.cfg.Data)
	}
	if err != nil {
		return nil, err
	}
	if err := r.write(ctx); err != nil {
		left, leftErr := r.files()
		err = errors.Join(err, leftErr)
		for _, name := range left {
			err = errors.Join(err, os.RemoveAll(filepath.Join(r.cfg.Data, name)))
		}
		return nil, err
	}
	return &Restored{
		Header: r.in.Header(), Inventory: r.contents.needs, Blobs: r.contents.blobs,
		Files: len(r.contents.databases) + len(r.contents.stores), Warnings: r.in.Summary().Warnings, KeyWritten: r.writeKey,
	}, nil
}

// files returns the names in the data directory, except for the lock.
func (r *restore) files() (names []string, err error) {
	entries, err := os.ReadDir(r.cfg.Data)
	for _, entry := range entries {
		if entry.Name() != "steward.lock" {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// write writes everything, checks it, and opens the installation to others.
func (r *restore) write(ctx context.Context) error {
	err := r.read(ctx)
	if err == nil {
		err = r.check(ctx)
	}
	if r.db != nil {
		err = errors.Join(err, r.db.Close())
	}
	if err != nil {
		return err
	}
	return r.finish(ctx)
}

// left tells what a failed restore has left outside the data directory, and how to clean it up.
func (r *restore) left() (text string) {
	if !r.begun {
		return ""
	}
	if r.cfg.DatabaseURL != "" {
		text = ". Drop the database and create it again before you try again: it has a part of the rows"
	}
	if r.cfg.BlobURL != nil {
		text += ". Use another prefix with --blob-url, or delete what is there: it has a part of the objects"
	}
	return text
}

// begin finds the master key and then opens the database, once. So a wrong key changes nothing.
func (r *restore) begin(ctx context.Context) error {
	if r.ring != nil {
		return nil
	}
	if err := r.useKey(); err != nil {
		return err
	}
	return r.open(ctx)
}

// useKey finds the master key, and returns an error unless the backup was made with it.
func (r *restore) useKey() (err error) {
	if r.key == nil {
		r.key = []byte(r.cfg.MasterKey)
	}
	if len(r.key) == 0 {
		if r.key, err = askMasterKey(r.program); err != nil {
			return err
		}
		r.writeKey = true
	}
	ring, err := masterkey.RingOf(r.cfg, r.key)
	if err != nil {
		return err
	}
	if want := r.in.Header().KeyID; !ring.HasKey(want) {
		return errs.New(errs.Conflict, "the master key is wrong: the backup was made with the key %q, and this one is %s", want, ring.KeyID())
	}
	r.ring = ring
	return nil
}

// open opens the database and the store for bytes, which must be empty. From then on nobody else can
// open the database.
func (r *restore) open(ctx context.Context) (err error) {
	options := r.cfg.Database()
	options.Restoring = true
	options.Migrations = db.MigrationsUpTo(r.in.Header().Schema)
	if r.db, err = db.Open(ctx, options); err != nil {
		return err
	}
	r.contents = newContents(r.in.Header())
	r.sums = map[string]*tablecopy.Sum{}
	if err := r.contents.openTables(r.db.Read(ctx)); err != nil {
		return err
	}
	for name := range r.contents.tables {
		var rows int64
		err := r.db.Read(ctx).Row("SELECT count(*) FROM (SELECT 1 FROM " + name + " LIMIT 1) first").Scan(&rows)
		if err != nil {
			return fmt.Errorf("look for rows: %w", err)
		}
		if rows > 0 {
			return errs.New(errs.Conflict, "the database is not empty: %s has rows; restore into a new one", name)
		}
	}
	if r.store, err = blobs.Open(ctx, r.cfg); err != nil {
		return err
	}
	found, _, err := r.store.List(ctx, "", 1)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return errs.New(errs.Conflict, "the store of objects is not empty; restore into another prefix with --blob-url")
	}
	if r.node, err = datadir.Node(r.cfg.Data, r.db.Dialect()); err != nil {
		return err
	}
	r.begun = true
	return r.db.Write(ctx, func(tx *db.Tx) error { return tx.BeginRestore() })
}

// read reads the whole backup and writes its contents.
func (r *restore) read(ctx context.Context) error {
	r.group, r.ctx = errgroup.WithContext(ctx)
	r.group.SetLimit(blobsAtOnce)
	if r.from != nil {
		r.in.External = func(info backup.Info) error { return r.external(ctx, info) }
	}
	err := readAll(r.in, func(p *backup.Part) error { return r.part(ctx, p) })
	if err == nil {
		err = r.flush()
	}
	if failed := r.group.Wait(); failed != nil { // causes err, if that is a canceled context
		return failed
	}
	if err != nil {
		return err
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	return r.contents.check(r.in.Summary())
}

// part writes a part. Everything but the key needs the database.
func (r *restore) part(ctx context.Context, p *backup.Part) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if p.Section != backup.Key {
		if err := r.begin(ctx); err != nil {
			return err
		}
	}
	if p.Section != backup.Rows {
		if err := r.flush(); err != nil {
			return err
		}
		r.contents.found(p.Section, p.ID)
	}
	switch p.Section {
	case backup.Key:
		key, err := io.ReadAll(io.LimitReader(p, maxKeyLength))
		if err != nil {
			return err
		}
		if given := []byte(r.cfg.MasterKey); len(given) > 0 && !bytes.Equal(given, key) {
			return errs.New(errs.Conflict, "the backup has another master key than the one in STEWARD_MASTER_KEY; unset that, or use the right one")
		}
		r.key = key
		r.writeKey = true
		return nil
	case backup.Rows:
		return r.contents.readRows(p, r.row)
	case backup.Databases:
		return r.file(p, "databases", id.Database)
	case backup.Stores:
		return r.file(p, "stores", id.KVStore)
	}
	return r.blob(p)
}

// row adds a row to the batch.
func (r *restore) row(table tablecopy.Table, line []byte) error {
	if r.batch.table.Name != table.Name {
		if err := r.flush(); err != nil {
			return err
		}
	}
	row, err := table.Decode(line)
	if err != nil {
		return fmt.Errorf("%w: %w", backup.ErrDamaged, err)
	}
	if table.Name == "resources" { // their files are in this data directory now
		if i := slices.Index(table.Names(), "node"); i >= 0 && row[i] == r.in.Header().Node {
			row[i] = r.node
		}
	}
	r.batch.table = table
	r.batch.rows = append(r.batch.rows, row)
	r.batch.bytes += len(line)
	if len(r.batch.rows) < insertRows && r.batch.bytes < insertBytes {
		return nil
	}
	return r.flush()
}

// flush writes the rows in the batch.
func (r *restore) flush() error {
	b := r.batch
	if len(b.rows) == 0 {
		return nil
	}
	if r.sums[b.table.Name] == nil {
		r.sums[b.table.Name] = &tablecopy.Sum{}
	}
	if err := b.table.AddTo(r.sums[b.table.Name], b.rows); err != nil {
		return err
	}
	r.batch = batch{rows: b.rows[:0]}
	return r.db.Write(db.Long(r.ctx), func(tx *db.Tx) error { return b.table.Insert(tx, b.rows) })
}

// file writes a file of an embedded database or key-value store.
func (r *restore) file(p *backup.Part, folder, prefix string) error {
	if !id.Is(prefix, p.ID) {
		return fmt.Errorf("%w: %q is no id", backup.ErrDamaged, p.ID)
	}
	dir := filepath.Join(r.cfg.Data, folder, p.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create a directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, filepath.Base(p.Name)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create a file: %w", err)
	}
	_, err = io.Copy(f, p)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	for _, name := range []string{dir, filepath.Dir(dir), r.cfg.Data} {
		if err := durable.SyncDir(name); err != nil {
			return err
		}
	}
	return nil
}

// blob writes a blob. It writes several small ones at a time, since each waits for the disk.
func (r *restore) blob(p *backup.Part) error {
	if p.Size > smallBlob {
		return r.store.Put(r.ctx, p.ID, p, p.Size)
	}
	content, err := io.ReadAll(p)
	if err != nil {
		return err
	}
	r.group.Go(func() error { return r.store.Put(r.ctx, p.ID, bytes.NewReader(content), p.Size) })
	return nil
}

// external writes a blob that is kept outside the backup. It reads and writes several small ones at
// a time.
func (r *restore) external(ctx context.Context, info backup.Info) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	if err := r.flush(); err != nil {
		return err
	}
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if err := r.contents.foundBeside(info); err != nil {
		return err
	}
	_, blobID, _ := backup.Parse(info.Name)
	write := func(content io.Reader) error {
		if info.Size <= smallBlob {
			all, err := io.ReadAll(content)
			if err != nil {
				return err
			}
			return r.store.Put(r.ctx, blobID, bytes.NewReader(all), int64(len(all)))
		}
		if r.from.cipher != nil { // info has the encrypted size
			return r.store.Put(r.ctx, blobID, content, -1)
		}
		return r.store.Put(r.ctx, blobID, content, info.Size)
	}
	if info.Size > smallBlob {
		return r.from.fetch(r.ctx, info, write)
	}
	r.group.Go(func() error { return r.from.fetch(r.ctx, info, write) })
	return nil
}

// check compares the database with the rows that we wrote, and tries the master key.
func (r *restore) check(ctx context.Context) error {
	ctx = db.ForCopy(ctx)
	sealed, ok, err := db.Stored(r.db.Read(ctx), masterkey.Setting)
	if err != nil {
		return err
	}
	if ok {
		if err := masterkey.Verify(r.ring, sealed); err != nil {
			return err
		}
	}
	return r.db.Snapshot(ctx, func(q db.Querier) error {
		for name, table := range r.contents.tables {
			if name == "meta" {
				continue // it also has the row that closes the database
			}
			got, err := table.SumOf(q)
			if err != nil {
				return err
			}
			want := tablecopy.Sum{}
			if r.sums[name] != nil {
				want = *r.sums[name]
			}
			if got != want {
				return fmt.Errorf("the rows of %s that were read back are not those that were written (%d and %d)", name, got.Rows, want.Rows)
			}
		}
		return nil
	})
}

// finish migrates the database, writes the master key, and opens the installation to others.
func (r *restore) finish(ctx context.Context) error {
	if r.writeKey {
		if err := seal.WriteKeyFile(r.cfg.Data, r.key); err != nil {
			return err
		}
	}
	options := r.cfg.Database()
	options.Restoring = true
	d, err := db.Open(ctx, options)
	if err != nil {
		return err
	}
	err = d.Write(ctx, func(tx *db.Tx) error {
		if err := tx.ContinueAfter(r.in.Header().NextNumber); err != nil {
			return err
		}
		return tx.EndRestore()
	})
	return errors.Join(err, d.Close())
}
