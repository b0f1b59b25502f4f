// Package blob owns the bytes of objects. A blob is written once under an id that its writer chose, read in
// whole or in part, and deleted; it never changes.
//
// Disk keeps blobs as files, S3 in a bucket of any S3 server. Both give the same promises, which
// blobtest checks.
package blob

import (
	"context"
	"errors"
	"io"
	"time"
)

// Errors of a Store.
var (
	// ErrNotFound is returned for a blob that does not exist.
	ErrNotFound = errors.New("blob: not found")
	// ErrFull is returned if there is no space left.
	ErrFull = errors.New("blob: no space left")
	// ErrUnavailable is returned if the store cannot be used at the moment; a retry may help.
	ErrUnavailable = errors.New("blob: the store cannot be used at the moment")
)

// Store keeps blobs. Ids are lower-case ULIDs (id.Blob); a writer never uses one twice.
type Store interface {
	// Put stores the bytes of r, which has size bytes, or an unknown number of them if size is -1.
	// If it returns nil, the blob is durable. Otherwise it does not exist; what a crash leaves of it
	// is listed and can be deleted. It returns the error of r unchanged, and io.ErrUnexpectedEOF if
	// r has less bytes or more than size.
	Put(ctx context.Context, id string, r io.Reader, size int64) error
	// Open returns a reader of length bytes from offset on, or of all that follow if length is -1.
	Open(ctx context.Context, id string, offset, length int64) (io.ReadCloser, error)
	// Size returns the size of a blob.
	Size(ctx context.Context, id string) (int64, error)
	// Delete deletes a blob and what an interrupted Put left of it. It returns nil if there is none.
	Delete(ctx context.Context, id string) error
	// List returns about limit blobs after a cursor, "" for the first ones, and the cursor of the
	// next ones, "" after the last. What interrupted Puts left is listed, too. Blobs that exist
	// during the whole listing are listed at least once.
	List(ctx context.Context, cursor string, limit int) (blobs []Info, next string, err error)
}

// Info is a blob in a list.
type Info struct {
	ID      string
	ModTime time.Time
}
