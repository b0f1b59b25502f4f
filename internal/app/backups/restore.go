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
	"steward/internal/app/masterkey"
	"steward/internal/backup"
	"steward/internal/blob"
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
	Header   backup.Header
	Rows     map[string]int64
	Blobs    int64
	Files    int // databases and key-value stores
	Warnings []string
	// KeyWritten reports whether the restore wrote the master key into the data directory.
	KeyWritten bool
}

// restoring is a restore under way. Until it ends, nobody else opens its database.
type restoring struct {
	cfg config.Config
	// askKey returns the master key if the backup does not have it.
	askKey func() ([]byte, error)
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

// restore restores a backup into an empty data directory, and an empty database if one is
// configured. It returns nil only after comparing everything that it wrote with the backup.
func (r *restoring) restore(ctx context.Context) (*Restored, error) {
	if err := checkHeader(r.in.Header()); err != nil {
		return nil, err
	}
	release, err := lockEmpty(r.cfg.Data)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := r.write(ctx); err != nil {
		return nil, errors.Join(err, empty(r.cfg.Data))
	}
	return r.result(), nil
}

// write writes everything, checks it, and opens the installation to others.
func (r *restoring) write(ctx context.Context) error {
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
func (r *restoring) left() (text string) {
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

// empty removes everything that a failed restore has left in a data directory, which was empty
// before.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.Name() != lockFile {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	return err
}

// lockFile is the file in a locked data directory.
const lockFile = "steward.lock"

// lockEmpty locks a data directory. It returns Conflict unless the directory is empty.
func lockEmpty(dir string) (release func(), err error) {
	lock, err := datadir.Acquire(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != lockFile }) {
		err = errs.New(errs.Conflict, "%s is not empty; restore into a new directory with --data", dir)
	}
	if err != nil {
		lock.Release()
		return nil, err
	}
	return lock.Release, nil
}

// open opens the database, which must be empty, and the store for bytes. From then on nobody else
// can open the database.
func (r *restoring) open(ctx context.Context) (err error) {
	options := r.cfg.Database()
	options.Restoring = true
	options.Migrations = db.MigrationsUpTo(r.in.Header().Schema)
	if r.db, err = db.Open(ctx, options); err != nil {
		return err
	}
	return r.prepare(ctx)
}

func (r *restoring) prepare(ctx context.Context) (err error) {
	r.contents = newContents(r.in.Header())
	r.sums = map[string]*tablecopy.Sum{}
	if err := r.contents.openTables(r.db.Read(ctx)); err != nil {
		return err
	}
	if err := r.mustBeEmpty(ctx); err != nil {
		return err
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
	r.node = "local"
	if r.db.Dialect() == db.Postgres {
		if r.node, err = datadir.NodeID(r.cfg.Data); err != nil {
			return err
		}
	}
	r.begun = true
	return r.db.Write(ctx, func(tx *db.Tx) error { return tx.BeginRestore() })
}

// mustBeEmpty returns Conflict if the database has rows.
func (r *restoring) mustBeEmpty(ctx context.Context) error {
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
	return nil
}

// read reads the whole backup and writes its contents.
func (r *restoring) read(ctx context.Context) error {
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

// begin finds the master key and then opens the database, once. So a wrong key changes nothing.
func (r *restoring) begin(ctx context.Context) error {
	if r.ring != nil {
		return nil
	}
	if err := r.useKey(); err != nil {
		return err
	}
	return r.open(ctx)
}

func (r *restoring) part(ctx context.Context, p *backup.Part) error {
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
		return r.readKey(p)
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
func (r *restoring) row(table tablecopy.Table, line []byte) error {
	if r.batch.table.Name != table.Name {
		if err := r.flush(); err != nil {
			return err
		}
	}
	row, err := table.Decode(line)
	if err != nil {
		return fmt.Errorf("%w: %w", backup.ErrDamaged, err)
	}
	r.move(table, row)
	r.batch.table = table
	r.batch.rows = append(r.batch.rows, row)
	r.batch.bytes += len(line)
	if len(r.batch.rows) < insertRows && r.batch.bytes < insertBytes {
		return nil
	}
	return r.flush()
}

// move assigns a resource's files to the new data directory.
func (r *restoring) move(table tablecopy.Table, row []any) {
	if table.Name != "resources" {
		return
	}
	if i := slices.Index(table.Names(), "node"); i >= 0 && row[i] == r.in.Header().Node {
		row[i] = r.node
	}
}

// flush writes the rows in the batch.
func (r *restoring) flush() error {
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
func (r *restoring) file(p *backup.Part, folder, prefix string) error {
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
func (r *restoring) blob(p *backup.Part) error {
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
func (r *restoring) external(ctx context.Context, info backup.Info) error {
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
	if info.Size > smallBlob {
		size := info.Size
		if r.from.cipher != nil {
			size = -1 // info has the encrypted size
		}
		return r.from.fetch(r.ctx, info, func(content io.Reader) error { return r.store.Put(r.ctx, blobID, content, size) })
	}
	r.group.Go(func() error {
		var content []byte
		err := r.from.fetch(r.ctx, info, func(from io.Reader) (err error) {
			content, err = io.ReadAll(from)
			return err
		})
		if err != nil {
			return err
		}
		return r.store.Put(r.ctx, blobID, bytes.NewReader(content), int64(len(content)))
	})
	return nil
}

// check compares the database with the rows that we wrote, and tries the master key.
func (r *restoring) check(ctx context.Context) error {
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
			if err := r.checkTable(q, name, table); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkTable reads a table's rows back. meta also has the row that closes the database.
func (r *restoring) checkTable(q db.Querier, name string, table tablecopy.Table) error {
	if name == "meta" {
		return nil
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
	return nil
}

// finish migrates the database, writes the master key, and opens the installation to others.
func (r *restoring) finish(ctx context.Context) error {
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

func (r *restoring) result() *Restored {
	return &Restored{
		Header: r.in.Header(), Rows: r.contents.rows, Blobs: r.contents.blobs,
		Files: len(r.contents.databases) + len(r.contents.stores), Warnings: r.in.Summary().Warnings, KeyWritten: r.writeKey,
	}
}
