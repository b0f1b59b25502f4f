// Package backups makes backups of an installation, and restores them.
//
// Source writes a backup: all tables' rows from one snapshot, then a copy of each embedded database
// and key-value store, then the bytes of the objects in the snapshot, whose deletion waits
// meanwhile. A running server does that for the command over the control socket (handler.go);
// without one the command does it itself (create.go). A repository is a directory or a bucket with
// backups that share the objects' bytes (repository.go); splitter adds a backup to one (split.go), and
// Periodic does so on a schedule (periodic.go). restore reads a backup into an empty installation
// (restore.go), and contents compares a backup with the inventory of its rows (contents.go).
package backups

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"steward/internal/app/config"
	"steward/internal/app/inventory"
	"steward/internal/app/masterkey"
	"steward/internal/backup"
	"steward/internal/blob"
	"steward/internal/db"
	"steward/internal/db/tablecopy"
	"steward/internal/id"
	"steward/internal/job"
	"steward/internal/sqlite"
)

const (
	// chunk is about how many bytes of rows a part has, or a little more.
	chunk = 1 << 20
	// leaseFor limits how long deleted objects' bytes are kept after a backup died.
	leaseFor = 30 * time.Second
	// garbageLease belongs to the job that deletes the bytes of deleted objects.
	garbageLease = "object garbage"
)

// Source is an installation to back up.
type Source struct {
	DB    *db.DB
	Blobs blob.Store
	// Config has the master key, and the data directory with the files of embedded databases and key-value
	// stores.
	Config config.Config
	// Node is the directory's id.
	Node    string
	Version string
	BaseURL string
	KeyID   string
	Now     func() time.Time
}

// Request describes the backup to write.
type Request struct {
	// WithKey adds the master key.
	WithKey bool `json:"with_key"`
	// Known is true if a list follows with blobs that the repository already has. The backup then
	// only refers to them.
	Known bool `json:"known"`
	// known has the list: a backup.Info on each line, in the order of the names.
	known io.Reader
	// elsewhere receives the number of databases and stores in other data directories, unless it is
	// nil.
	elsewhere *int64
}

// list returns the list of known blobs.
func (r Request) list() io.Reader {
	if r.known == nil {
		return bytes.NewReader(nil)
	}
	return r.known
}

// exclusive returns the lease for making a backup, which all replicas and commands share.
func (s *Source) exclusive(owner string) job.Lease {
	return job.Lease{DB: s.DB, Now: s.Now, Name: "backup", Owner: owner, TTL: leaseFor}
}

// Write writes a backup. While it runs, deleted objects keep their bytes.
func (s *Source) Write(ctx context.Context, w io.Writer, r Request) error {
	lease := job.Lease{DB: s.DB, Now: s.Now, Name: garbageLease, Owner: id.New("bak"), TTL: leaseFor}
	return lease.Hold(ctx, func(ctx context.Context) error {
		blobs, err := newSpool(s.Config.Data)
		if err != nil {
			return err
		}
		defer blobs.close()
		out := &snapshotWriter{Source: s, ctx: ctx, needs: inventory.New(s.Node), blobs: blobs, known: newKnownBlobs(r.list())}
		defer func() {
			if out.out != nil {
				out.out.Abort()
			}
		}()
		return out.run(w, r)
	})
}

// snapshotWriter writes a backup.
type snapshotWriter struct {
	*Source
	ctx      context.Context
	out      *backup.Writer
	needs    inventory.Inventory
	blobs    *spool
	known    *knownBlobs
	warnings []string
}

func (w *snapshotWriter) run(to io.Writer, r Request) error {
	err := w.DB.Snapshot(db.ForCopy(w.ctx), func(q db.Querier) error { return w.snapshot(q, to, r) })
	if err != nil {
		return err
	}
	slices.Sort(w.needs.Databases)
	for _, databaseID := range w.needs.Databases {
		if err := w.addDatabase(databaseID); err != nil {
			return fmt.Errorf("database %s: %w", databaseID, err)
		}
	}
	slices.Sort(w.needs.Stores)
	for _, storeID := range w.needs.Stores {
		if err := w.addStore(storeID); err != nil {
			return fmt.Errorf("key-value store %s: %w", storeID, err)
		}
	}
	if w.needs.Elsewhere > 0 {
		w.warn("%d databases and key-value stores are in the data directories of other nodes, and are not in this backup", w.needs.Elsewhere)
	}
	if r.elsewhere != nil {
		*r.elsewhere = w.needs.Elsewhere
	}
	if err := w.blobs.each(w.addBlob); err != nil {
		return err
	}
	return w.out.Close(backup.Summary{Rows: w.needs.Rows, Warnings: w.warnings})
}

// snapshot writes the header, the key and all rows.
func (w *snapshotWriter) snapshot(q db.Querier, to io.Writer, r Request) error {
	header := backup.Header{
		Steward: w.Version, CreatedAt: w.Now().UTC(), Engine: q.Dialect().String(), KeyID: w.KeyID, Node: w.Node, BaseURL: w.BaseURL,
	}
	var err error
	if header.Schema, err = db.Schema(q); err != nil {
		return err
	}
	if header.NextNumber, err = db.NextNumber(q); err != nil {
		return err
	}
	if w.out, err = backup.NewWriter(to, header); err != nil {
		return err
	}
	if r.WithKey {
		key, err := masterkey.Current(w.ctx, w.Config)
		if err != nil {
			return err
		}
		if err := w.out.Add(backup.KeyName, int64(len(key)), bytes.NewReader(key)); err != nil {
			return err
		}
	}
	for _, name := range tablecopy.Tables() {
		if err := w.addTable(q, name); err != nil {
			return err
		}
	}
	return nil
}

// addTable writes a table's rows in parts. Each begins with a line that names the columns.
func (w *snapshotWriter) addTable(q db.Querier, name string) error {
	table, err := tablecopy.Open(q, name)
	if err != nil {
		return err
	}
	first, err := json.Marshal(table.Names())
	if err != nil {
		return err
	}
	parts := 0
	buf := append(first[:len(first):len(first)], '\n')
	flush := func() error {
		err := w.out.Add(backup.RowsName(name, parts), int64(len(buf)), bytes.NewReader(buf))
		parts++
		buf = append(append(buf[:0], first...), '\n')
		return err
	}
	err = table.Read(q, func(line []byte) error {
		if err := w.addRow(table, line); err != nil {
			return err
		}
		buf = append(append(buf, line...), '\n')
		if len(buf) < chunk {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// addRow adds a row to the inventory. It returns an error if an object's file differs in size from its
// row: the backup would be complete and the object in it would not. An S3 server has only whole
// objects, and asking for each would take long.
func (w *snapshotWriter) addRow(table tablecopy.Table, line []byte) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	blobID, err := w.needs.Add(table, line)
	if err != nil {
		return err
	}
	if blobID != "" {
		return w.blobs.add(blobID)
	}
	if _, files := w.Blobs.(*blob.Disk); !files || !inventory.HasSizes(table.Name) {
		return nil
	}
	row, err := table.Decode(line)
	if err != nil {
		return err
	}
	return inventory.CheckSizes(w.ctx, w.Blobs, table, row)
}

func (w *snapshotWriter) warn(format string, args ...any) {
	w.warnings = append(w.warnings, fmt.Sprintf(format, args...))
}

// copyName is the file name of a database's copy while we write it into a backup.
const copyName = ".backup.db"

// addDatabase writes a consistent copy of a database, or an empty one if it was deleted since the
// snapshot.
func (w *snapshotWriter) addDatabase(databaseID string) error {
	name := backup.DatabaseName(databaseID)
	path := filepath.Join(w.Config.Data, "databases", databaseID, "data.db")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		w.warn("database %s has no file, and is empty in this backup", databaseID)
		return w.out.Add(name, 0, bytes.NewReader(nil))
	}
	if err := w.ctx.Err(); err != nil {
		return err
	}
	copied := filepath.Join(w.Config.Data, copyName)
	if err := os.Remove(copied); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a backup that died
		return err
	}
	f, err := os.OpenFile(copied, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(copied)
	}()
	if err := sqlite.Backup(path, copied); err != nil {
		return err
	}
	return w.addFile(name, f)
}

// addFile writes the bytes that a file has now.
func (w *snapshotWriter) addFile(name string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return w.out.Add(name, info.Size(), f)
}

// emptyLog is the log of a key-value store without keys.
const emptyLog = "SKVLOG1\n"

// addStore writes a key-value store's log: its current bytes contain everything that was
// acknowledged, and bytes after them do not matter. A log that is replaced meanwhile stays readable.
func (w *snapshotWriter) addStore(storeID string) error {
	name := backup.StoreName(storeID)
	f, err := os.Open(filepath.Join(w.Config.Data, "stores", storeID, "store.log"))
	if errors.Is(err, fs.ErrNotExist) {
		w.warn("key-value store %s has no file, and is empty in this backup", storeID)
		return w.out.Add(name, int64(len(emptyLog)), strings.NewReader(emptyLog))
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return w.addFile(name, f)
}

// addBlob writes the bytes of an object or a part.
func (w *snapshotWriter) addBlob(blobID string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if info, ok, err := w.known.find(backup.BlobName(blobID)); err != nil || ok {
		if err != nil {
			return err
		}
		return w.out.Refer(info)
	}
	size, err := w.Blobs.Size(w.ctx, blobID)
	if err != nil {
		return fmt.Errorf("blob %s: %w", blobID, err)
	}
	r, err := w.Blobs.Open(w.ctx, blobID, 0, -1)
	if err != nil {
		return fmt.Errorf("blob %s: %w", blobID, err)
	}
	defer func() { _ = r.Close() }()
	return w.out.Add(backup.BlobName(blobID), size, r)
}

// knownBlobs is a list of blobs in order.
type knownBlobs struct {
	lines *json.Decoder
	next  backup.Info
}

func newKnownBlobs(r io.Reader) *knownBlobs {
	return &knownBlobs{lines: json.NewDecoder(bufio.NewReader(r))}
}

// find returns a blob if it is in the list. Ask for names in their order.
func (k *knownBlobs) find(name string) (info backup.Info, ok bool, err error) {
	for k.next.Name < name {
		before := k.next.Name
		err := k.lines.Decode(&k.next)
		if errors.Is(err, io.EOF) {
			return backup.Info{}, false, nil
		}
		if err != nil || k.next.Name <= before {
			return backup.Info{}, false, errors.New("the list of known blobs cannot be decoded, or is not in order")
		}
	}
	return k.next, k.next.Name == name, nil
}

// spool is a list of blobs on disk: there may be millions.
type spool struct {
	file *os.File
	out  *bufio.Writer
}

// newSpool creates a list in a directory. The file has no name, so that nothing remains of it.
func newSpool(dir string) (*spool, error) {
	f, err := os.CreateTemp(dir, ".backup-*")
	if err != nil {
		return nil, fmt.Errorf("create the list of blobs: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("create the list of blobs: %w", err)
	}
	return &spool{file: f, out: bufio.NewWriter(f)}, nil
}

func (s *spool) close() { _ = s.file.Close() }

// add appends a blob.
func (s *spool) add(blobID string) error {
	_, err := s.out.WriteString(blobID + "\n")
	return err
}

// rewind prepares to read the file from its beginning.
func (s *spool) rewind() error {
	if err := s.out.Flush(); err != nil {
		return fmt.Errorf("write the list of blobs: %w", err)
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the list of blobs: %w", err)
	}
	return nil
}

// each calls f with all blobs, in order.
func (s *spool) each(f func(blobID string) error) error {
	if err := s.rewind(); err != nil {
		return err
	}
	lines := bufio.NewScanner(s.file)
	for lines.Scan() {
		if err := f(lines.Text()); err != nil {
			return err
		}
	}
	return lines.Err()
}
