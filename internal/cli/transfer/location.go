// Package transfer copies files and objects: between a disk and buckets, or between buckets.
//
// Plan lists what is to be copied and Run copies it, several at once, and reports each byte. Keys come
// from others: those that would leave the directory that is written to are refused by os.Root.
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
	Path   string // of the file, or the key or prefix
}

// scheme begins the name of an object.
const scheme = "s3://"

// Parse returns the location that a text names: s3://bucket/key, or the path of a file.
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

// isDirectory reports whether things are to be copied into the location, not over it.
func (l Location) isDirectory() bool {
	return l.Remote() && l.Path == "" || strings.HasSuffix(l.Path, "/")
}

// base returns the last element of the path.
func (l Location) base() string {
	if l.Remote() {
		return path.Base(l.Path)
	}
	return filepath.Base(l.Path)
}
