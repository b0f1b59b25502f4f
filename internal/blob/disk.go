package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"steward/internal/disk"
	"steward/internal/durable"
	"steward/internal/id"
)

// Disk keeps blobs as files: `<dir>/<last two characters of the id>/<id>`. These characters are random and
// spread the files evenly over 1,024 directories. We write a file under a temporary name in the same
// directory, the id and `~`, sync it, rename it, and then sync the directory.
type Disk struct {
	// Space is the directory's disk. Put fails while the disk is almost full. It may be nil.
	Space *disk.Space

	dir string

	mu sync.Mutex
	// durable has the directories that exist and would survive a power loss.
	durable map[string]bool
}

const temporary = "~"

// OpenDisk opens the store in a directory. It creates the directory if necessary.
func OpenDisk(dir string) (*Disk, error) {
	d := &Disk{dir: dir, durable: map[string]bool{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create blob directory: %w", err)
	}
	names, err := d.directories()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{dir, filepath.Dir(dir)} {
		if err := durable.SyncDir(name); err != nil {
			return nil, fmt.Errorf("sync blob directory: %w", err)
		}
	}
	for _, name := range names {
		d.durable[name] = true
	}
	return d, nil
}

// directories returns the subdirectories with blobs, in ascending order.
func (d *Disk) directories() (names []string, err error) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, explainDisk(err)
	}
	for _, entry := range entries {
		if entry.IsDir() && len(entry.Name()) == 2 {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// ensure creates a blob's directory if necessary. Another process may have created it and not synced it
// yet, so every process syncs it at least once. It does not hold the lock meanwhile, because in a new store
// almost every Put creates a directory.
func (d *Disk) ensure(path string) error {
	directory := filepath.Dir(path)
	name := filepath.Base(directory)
	d.mu.Lock()
	known := d.durable[name]
	d.mu.Unlock()
	if known {
		return nil
	}
	if err := os.Mkdir(directory, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := durable.SyncDir(d.dir); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.durable[name] = true
	return nil
}

// place returns a blob's directory and name inside a store. It returns ErrNotFound unless blobID is an id:
// a crafted one must never lead to a path outside the store.
func place(blobID string) (directory, name string, err error) {
	if _, ok := id.BlobTime(blobID); !ok {
		return "", "", fmt.Errorf("%w: not an id", ErrNotFound)
	}
	return blobID[len(blobID)-2:], blobID, nil
}

func (d *Disk) path(blobID string) (string, error) {
	directory, name, err := place(blobID)
	return filepath.Join(d.dir, directory, name), err
}

// Put implements Store.
func (d *Disk) Put(ctx context.Context, blobID string, r io.Reader, size int64) error {
	path, err := d.path(blobID)
	if err != nil {
		return err
	}
	if err := d.ensure(path); err != nil {
		return explainDisk(err)
	}
	in := &source{ctx: ctx, r: r}
	err = d.write(path+temporary, in, size)
	if err == nil {
		err = move(path+temporary, path)
	}
	if err == nil {
		return nil
	}
	_ = os.Remove(path + temporary) // if this fails, List shows it
	if in.err != nil {
		return in.err
	}
	return explainDisk(err)
}

func (d *Disk) write(path string, in *source, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := io.Copy(&reserved{f, d.Space}, in); err != nil {
		return err
	}
	if err := in.checkSize(size); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// reserved writes to a file until it would use the disk's reserve.
type reserved struct {
	file  *os.File
	space *disk.Space
}

func (w *reserved) Write(p []byte) (int, error) {
	if err := w.space.Room(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrFull, err)
	}
	return w.file.Write(p)
}

// move renames a file durably. If it cannot sync the directory, it removes the file again, because after an
// error the blob must not exist.
func move(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := durable.SyncDir(filepath.Dir(to)); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}

// source wraps the reader in a Put. It tells the reader's errors from the store's, stops when its context
// ends, and counts bytes.
type source struct {
	ctx context.Context
	r   io.Reader
	n   int64
	err error
	// ended reports whether r has returned io.EOF.
	ended bool
}

func (s *source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		s.err = err
		return 0, err
	}
	n, err := s.r.Read(p)
	s.n += int64(n)
	s.ended = err == io.EOF
	if err != nil && !s.ended {
		s.err = err
	}
	return n, err
}

// checkSize sets and returns io.ErrUnexpectedEOF unless we read exactly size bytes.
func (s *source) checkSize(size int64) error {
	if size >= 0 && s.n != size {
		s.err = io.ErrUnexpectedEOF
	}
	return s.err
}

// explainDisk wraps file system errors in this package's errors.
func explainDisk(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case errors.Is(err, ErrFull):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// Open implements Store.
func (d *Disk) Open(_ context.Context, blobID string, offset, length int64) (io.ReadCloser, error) {
	path, err := d.path(blobID)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, explainDisk(err)
	}
	if offset > 0 {
		if _, err := f.Seek(offset, io.SeekStart); err != nil {
			_ = f.Close()
			return nil, explainDisk(err)
		}
	}
	if length < 0 {
		return f, nil
	}
	return limitedFile{&io.LimitedReader{R: f, N: length}, f}, nil
}

// limitedFile reads part of a file.
type limitedFile struct {
	*io.LimitedReader
	io.Closer
}

// WriteTo writes the remaining bytes. If the writer is a connection, the kernel can send the file directly.
func (f limitedFile) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, f.LimitedReader) }

// Size implements Store.
func (d *Disk) Size(_ context.Context, blobID string) (int64, error) {
	path, err := d.path(blobID)
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, explainDisk(err)
	}
	return info.Size(), nil
}

// Delete implements Store. It does not sync: a file that comes back after a power loss is merely an orphan.
func (d *Disk) Delete(_ context.Context, blobID string) error {
	path, err := d.path(blobID)
	if err != nil {
		return nil
	}
	for _, name := range []string{path, path + temporary} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return explainDisk(err)
		}
	}
	return nil
}

// List implements Store. The cursor is the last file's directory and name.
func (d *Disk) List(ctx context.Context, cursor string, limit int) (blobs []Info, next string, err error) {
	names, err := d.directories()
	if err != nil {
		return nil, "", err
	}
	directory, after, _ := strings.Cut(cursor, "/")
	for _, name := range names {
		if name < directory {
			continue
		}
		if name > directory {
			after = ""
		}
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		entries, err := os.ReadDir(filepath.Join(d.dir, name))
		if err != nil {
			return nil, "", explainDisk(err)
		}
		for _, entry := range entries {
			if entry.Name() <= after {
				continue
			}
			if len(blobs) >= limit {
				return blobs, next, nil
			}
			blobs = appendFile(blobs, entry)
			next = name + "/" + entry.Name()
		}
	}
	return blobs, "", nil
}

// appendFile appends a file, unless it is not a blob or was deleted meanwhile.
func appendFile(blobs []Info, entry fs.DirEntry) []Info {
	blobID := strings.TrimSuffix(entry.Name(), temporary)
	if _, ok := id.BlobTime(blobID); !ok {
		return blobs
	}
	info, err := entry.Info()
	if err != nil {
		return blobs
	}
	return append(blobs, Info{ID: blobID, ModTime: info.ModTime()})
}

// Sweep deletes the temporary files of Puts that began before a time and never finished.
func (d *Disk) Sweep(ctx context.Context, before time.Time) error {
	names, err := d.directories()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		entries, err := os.ReadDir(filepath.Join(d.dir, name))
		if err != nil {
			return explainDisk(err)
		}
		for _, entry := range entries {
			if !strings.HasSuffix(entry.Name(), temporary) {
				continue
			}
			info, err := entry.Info()
			if err != nil || !info.ModTime().Before(before) {
				continue // the Put has finished, or is still writing
			}
			if err := os.Remove(filepath.Join(d.dir, name, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return explainDisk(err)
			}
		}
	}
	return nil
}
