// Package blob stores the bytes of objects. A blob is written once under an id that its writer chooses,
// read in whole or in part, and deleted; it never changes.
//
// Disk keeps blobs as files, S3 in a bucket on any S3 server. Both make the same promises, which blobtest
// checks.
package blob

import (
	"context"
	"errors"
	"io"
	"time"
)

// Errors that every Store returns.
var (
	// ErrNotFound means that the blob does not exist.
	ErrNotFound = errors.New("blob: not found")
	// ErrFull means that no space is left.
	ErrFull = errors.New("blob: no space left")
	// ErrUnavailable means that the store does not work at the moment. A retry may help.
	ErrUnavailable = errors.New("blob: the store cannot be used at the moment")
)

// Store keeps blobs. Ids are lower-case ULIDs (id.Blob); a writer never uses one twice.
type Store interface {
	// Put stores r's bytes: exactly size, or an unknown number if size is -1. If it returns nil, the blob
	// is durable. Otherwise the blob does not exist; after a crash, List may show its remains and Delete
	// removes them. Put returns r's errors unchanged, and io.ErrUnexpectedEOF if r has fewer or more bytes
	// than size.
	Put(ctx context.Context, id string, r io.Reader, size int64) error
	// Open returns a reader for length bytes from offset, or for everything after offset if length is -1.
	Open(ctx context.Context, id string, offset, length int64) (io.ReadCloser, error)
	// Size returns a blob's size.
	Size(ctx context.Context, id string) (int64, error)
	// Delete deletes a blob, and anything that an interrupted Put left under its id. It returns nil if
	// there is nothing.
	Delete(ctx context.Context, id string) error
	// List returns about limit blobs after a cursor, and the next cursor. The first cursor is "", and so is
	// the one after the last page. It includes the remains of interrupted Puts. A blob that exists
	// throughout the listing appears at least once.
	List(ctx context.Context, cursor string, limit int) (blobs []Info, next string, err error)
}

// Info is a blob in a list.
type Info struct {
	ID      string
	ModTime time.Time
}
