// Package transfer copies files and objects: between a disk and buckets, or between buckets.
//
// Plan lists the copies to make and Run makes them, several at once, and reports each byte. Keys
// come from others: os.Root refuses those that would leave the target directory.
package transfer

import (
	"errors"
	"path"
	"path/filepath"
	"strings"
)

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
