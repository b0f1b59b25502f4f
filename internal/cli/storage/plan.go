package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"steward/internal/cli/session"
)

// Copier copies between the disk and buckets.
type Copier struct {
	session *session.Session

	mu      sync.Mutex
	clients map[string]*minio.Client // by bucket
}

// Item is a file or an object. Its name is relative to the listed location, with slashes.
type Item struct {
	Name     string
	Size     int64
	Modified time.Time
}

// Copy is a file or an object to copy.
type Copy struct {
	From, To Location // directories or prefixes that contain Source and Target
	Source   string
	Target   string
	Size     int64
	Modified time.Time
}

// ErrNotFound says that the source does not exist.
var ErrNotFound = errors.New("does not exist")

// List returns everything in a directory or below a prefix. A prefix ends at a slash, as a directory
// does.
func (c *Copier) List(ctx context.Context, l Location) ([]Item, error) {
	if l.Remote() {
		client, err := c.client(ctx, l.Bucket)
		if err != nil {
			return nil, err
		}
		prefix := asPrefix(l.Path)
		var items []Item
		for o := range client.ListObjectsIter(ctx, l.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
			if o.Err != nil {
				return nil, fmt.Errorf("list %s: %w", l, o.Err)
			}
			name := strings.TrimPrefix(o.Key, prefix)
			if name == "" || strings.HasSuffix(name, "/") { // a marker for an empty folder
				continue
			}
			items = append(items, Item{Name: name, Size: o.Size, Modified: o.LastModified})
		}
		return items, nil
	}
	return listFiles(ctx, l.Path)
}

// asPrefix returns a path that ends with a slash, or "".
func asPrefix(path string) string {
	if path == "" || strings.HasSuffix(path, "/") {
		return path
	}
	return path + "/"
}

// listFiles returns the regular files below a directory. It does not follow symbolic links to
// directories.
func listFiles(ctx context.Context, dir string) ([]Item, error) {
	var items []Item
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if entry.IsDir() {
			return nil
		}
		info, err := os.Stat(path) // follows a link to its target
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		items = append(items, Item{Name: filepath.ToSlash(name), Size: info.Size(), Modified: info.ModTime()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	return items, nil
}

// PlanOne returns the copy for one file or object. The target may be a directory or a prefix that
// ends with a slash.
func (c *Copier) PlanOne(ctx context.Context, from, to Location) (Copy, error) {
	item, err := c.stat(ctx, from)
	if err != nil {
		return Copy{}, err
	}
	if !to.Remote() && !to.isDirectory() {
		if info, err := os.Stat(to.Path); err == nil && info.IsDir() {
			to.Path += "/"
		}
	}
	one := Copy{Source: from.base(), Size: item.Size, Modified: item.Modified}
	one.From = Location{Bucket: from.Bucket, Path: strings.TrimSuffix(from.Path, from.base())}
	one.Target = to.base()
	one.To = Location{Bucket: to.Bucket, Path: strings.TrimSuffix(to.Path, to.base())}
	if to.isDirectory() {
		one.Target = from.base()
		one.To = to
	}
	return one, nil
}

func (c *Copier) stat(ctx context.Context, l Location) (Item, error) {
	if !l.Remote() {
		info, err := os.Stat(l.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return Item{}, fmt.Errorf("%s %w", l, ErrNotFound)
		}
		if err != nil {
			return Item{}, err
		}
		if info.IsDir() {
			return Item{}, fmt.Errorf("%s is a directory; add --recursive to copy it", l)
		}
		return Item{Size: info.Size(), Modified: info.ModTime()}, nil
	}
	client, err := c.client(ctx, l.Bucket)
	if err != nil {
		return Item{}, err
	}
	o, err := client.StatObject(ctx, l.Bucket, l.Path, minio.StatObjectOptions{})
	if minio.ToErrorResponse(err).StatusCode == 404 || l.Path == "" {
		return Item{}, fmt.Errorf("%s %w", l, ErrNotFound)
	}
	if err != nil {
		return Item{}, fmt.Errorf("look up %s: %w", l, err)
	}
	return Item{Size: o.Size, Modified: o.LastModified}, nil
}

// PlanAll returns the copies for all files below a directory or prefix.
func (c *Copier) PlanAll(ctx context.Context, from, to Location) ([]Copy, error) {
	items, err := c.List(ctx, from)
	if err != nil {
		return nil, err
	}
	copies := make([]Copy, len(items))
	for i, item := range items {
		copies[i] = newCopy(from, to, item)
	}
	return copies, nil
}

func newCopy(from, to Location, item Item) Copy {
	return Copy{From: from, To: to, Source: item.Name, Target: item.Name, Size: item.Size, Modified: item.Modified}
}

// PlanSync returns the copies that make the target equal to the source, and the names that only the
// target has. It copies a file if the target lacks it, or has one of another size, or an older one.
func (c *Copier) PlanSync(ctx context.Context, from, to Location) (copies []Copy, extra []string, err error) {
	sources, err := c.List(ctx, from)
	if err != nil {
		return nil, nil, err
	}
	have := map[string]Item{}
	targets, err := c.List(ctx, to)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	for _, item := range targets {
		have[item.Name] = item
	}
	for _, item := range sources {
		target, ok := have[item.Name]
		delete(have, item.Name)
		// Disks and buckets store times with different precision.
		if !ok || target.Size != item.Size || target.Modified.Before(item.Modified.Truncate(time.Second)) {
			copies = append(copies, newCopy(from, to, item))
		}
	}
	for name := range have {
		extra = append(extra, name)
	}
	slices.Sort(extra)
	return copies, extra, nil
}

// Location is a file, a directory, an object or a prefix.
type Location struct {
	Bucket string // "" on the disk
	Path   string // the file's, or the key or prefix
}

// scheme begins an object's name.
const scheme = "s3://"

// Parse returns the location that a text names: s3://bucket/key, or a file's path.
func Parse(text string) (Location, error) {
	rest, remote := strings.CutPrefix(text, scheme)
	if !remote {
		if text == "" {
			return Location{}, errors.New("a path must not be empty")
		}
		return Location{Path: text}, nil
	}
	return ParseObject(rest)
}

// ParseObject returns the object that bucket/key or s3://bucket/key names.
func ParseObject(text string) (Location, error) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(text, scheme), "/")
	if bucket == "" {
		return Location{}, errors.New("an object is named s3://bucket/key; `steward bucket list` lists the buckets")
	}
	return Location{Bucket: bucket, Path: key}, nil
}

// Remote reports whether the location is in a bucket.
func (l Location) Remote() bool { return l.Bucket != "" }

// String returns the location as users write it.
func (l Location) String() string {
	if l.Remote() {
		return scheme + l.Bucket + "/" + l.Path
	}
	return l.Path
}

// isDirectory reports whether copies go into the location, not over it.
func (l Location) isDirectory() bool {
	return l.Remote() && l.Path == "" || strings.HasSuffix(l.Path, "/")
}

func (l Location) base() string {
	if l.Remote() {
		return path.Base(l.Path)
	}
	return filepath.Base(l.Path)
}
