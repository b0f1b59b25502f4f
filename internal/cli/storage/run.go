package storage

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"mime"
	"os"
	"path"
	"path/filepath"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"
)

// atOnce caps the files that we copy at once.
const atOnce = 4

// Run makes copies and writes the bytes that it has read to progress, too. It stops at the first error.
func (c *Copier) Run(ctx context.Context, copies []Copy, progress io.Writer) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, one := range copies {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			source, err := c.Open(ctx, one.source())
			if err != nil {
				return err
			}
			defer source.Close()
			reader := io.TeeReader(source, progress)
			if one.To.Remote() {
				return c.Put(ctx, one.target(), reader, one.Size)
			}
			return one.writeFile(reader)
		})
	}
	return group.Wait()
}

func (one Copy) source() Location { return one.From.join(one.Source) }

// target returns the location to write.
func (one Copy) target() Location { return one.To.join(one.Target) }

func (l Location) join(name string) Location {
	if l.Remote() {
		return Location{Bucket: l.Bucket, Path: asPrefix(l.Path) + name}
	}
	return Location{Path: filepath.Join(l.Path, filepath.FromSlash(name))}
}

// Open opens a file or an object.
func (c *Copier) Open(ctx context.Context, l Location) (io.ReadCloser, error) {
	if !l.Remote() {
		return os.Open(l.Path)
	}
	client, err := c.client(ctx, l.Bucket)
	if err != nil {
		return nil, err
	}
	object, err := client.GetObject(ctx, l.Bucket, l.Path, minio.GetObjectOptions{})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l, err)
	}
	if _, err := object.Stat(); err != nil {
		_ = object.Close()
		if minio.ToErrorResponse(err).StatusCode == 404 {
			return nil, fmt.Errorf("%s %w", l, ErrNotFound)
		}
		return nil, fmt.Errorf("read %s: %w", l, err)
	}
	return object, nil
}

// Put writes an object. The size is -1 if it is unknown.
func (c *Copier) Put(ctx context.Context, l Location, from io.Reader, size int64) error {
	client, err := c.client(ctx, l.Bucket)
	if err != nil {
		return err
	}
	options := minio.PutObjectOptions{ContentType: mime.TypeByExtension(path.Ext(l.Path))}
	if size < 0 {
		options.PartSize = 16 << 20 // held in memory
	}
	if _, err := client.PutObject(ctx, l.Bucket, l.Path, from, size, options); err != nil {
		return fmt.Errorf("write %s: %w", l, err)
	}
	return nil
}

// writeFile writes a file under another name and renames it, so that an interrupted copy leaves no
// half-written file behind. It writes nothing outside its directory, whatever the name.
func (one Copy) writeFile(from io.Reader) error {
	dir := one.To.Path
	if dir == "" {
		dir = "."
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("create %s: %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	defer func() { _ = root.Close() }()
	name := filepath.FromSlash(one.Target)
	if err := root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return fmt.Errorf("create the directory of %s: %w", name, err)
	}
	if err := writeThenRename(root, name, from); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(dir, name), err)
	}
	// A later sync compares the times.
	return root.Chtimes(name, one.Modified, one.Modified)
}

func writeThenRename(root *os.Root, name string, from io.Reader) error {
	part := filepath.Join(filepath.Dir(name), ".steward-"+rand.Text())
	file, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = root.Rename(part, name)
	}
	if err != nil {
		_ = root.Remove(part)
	}
	return err
}

// Remove removes objects or files by their names below a location, and returns how many it removed.
func (c *Copier) Remove(ctx context.Context, l Location, names []string) (removed int, err error) {
	for _, name := range names {
		if err := c.removeOne(ctx, l, name); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

func (c *Copier) removeOne(ctx context.Context, l Location, name string) error {
	if !l.Remote() {
		root, err := os.OpenRoot(l.Path)
		if err != nil {
			return err
		}
		defer func() { _ = root.Close() }()
		return root.Remove(filepath.FromSlash(name))
	}
	client, err := c.client(ctx, l.Bucket)
	if err != nil {
		return err
	}
	return client.RemoveObject(ctx, l.Bucket, l.join(name).Path, minio.RemoveObjectOptions{})
}
