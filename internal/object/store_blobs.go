package object

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"time"

	"steward/internal/blob"
	"steward/internal/db"
	"steward/internal/disk"
	"steward/internal/errs"
	"steward/internal/id"
)

// Blobs writes and reads the bytes of objects and parts, and keeps track of references to them.
type Blobs struct {
	DB    *db.DB
	Store blob.Store
	// Disk is the database's disk, unless the blob store has its own.
	Disk *disk.Space
	Now  func() time.Time
	// Log receives errors that no caller gets.
	Log *slog.Logger
}

// orphanAge is the age at which Sweep removes bytes without a row. For half this time after its id is made,
// we may still refer to a blob.
const orphanAge = 24 * time.Hour

// written is a blob that write has stored.
type written struct {
	ref      blobRef
	etag     string
	checksum *Checksum
}

// write stores r's bytes as a new blob. Nothing refers to it yet: if the process dies now, Sweep removes
// it.
func (s *Blobs) write(ctx context.Context, r io.Reader, size int64, checksum func() (*Checksum, error)) (written, error) {
	if err := s.Disk.Room(); err != nil {
		return written{}, err
	}
	w := written{ref: blobRef{id: id.Blob(s.Now())}}
	sum := md5.New()
	in := &input{r: io.TeeReader(r, sum)}
	if err := s.Store.Put(ctx, w.ref.id, in, size); err != nil {
		switch {
		case in.err != nil:
			return w, in.err
		case errors.Is(err, io.ErrUnexpectedEOF):
			return w, errs.New(errs.Malformed, "the body has another size than the request says")
		}
		return w, explain(err)
	}
	w.ref.size = in.n
	w.etag = hex.EncodeToString(sum.Sum(nil))
	if checksum == nil {
		return w, nil
	}
	var err error
	w.checksum, err = checksum()
	s.discard(err, w.ref)
	return w, err
}

// input counts the bytes read and keeps the reader's error.
type input struct {
	r   io.Reader
	n   int64
	err error
}

func (i *input) Read(p []byte) (int, error) {
	n, err := i.r.Read(p)
	i.n += int64(n)
	if err != nil && err != io.EOF {
		i.err = err
	}
	return n, err
}

// explain turns the blob store's errors into errors that clients may see.
func explain(err error) error {
	switch {
	case errors.Is(err, blob.ErrFull):
		return errs.Unavailablef(err, "the storage is full")
	case errors.Is(err, blob.ErrUnavailable):
		return errs.Unavailablef(err, "the storage cannot be used at the moment")
	}
	return err
}

// discardFor bounds how long discard takes.
const discardFor = 10 * time.Second

// discard deletes a blob if the change that would have referred to it was refused. After any other error
// the change may have been committed, so we leave the blob to Sweep.
func (s *Blobs) discard(refused error, ref blobRef) {
	if refused == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), discardFor)
	defer cancel()
	if err := s.Store.Delete(ctx, ref.id); err != nil {
		s.Log.Warn("the bytes of a refused write stay until the next sweep", "blob", ref.id, "error", err)
	}
}

// checkAge refuses to refer to a blob so old that Sweep may be about to remove it.
func (s *Blobs) checkAge(ref blobRef) error {
	made, _ := id.BlobTime(ref.id)
	if s.Now().Sub(made) > orphanAge/2 {
		return errs.Unavailablef(nil, "the upload took too long")
	}
	return nil
}

// Open returns the bytes of an object that Get returned: length bytes from offset, or everything after
// offset if length is -1. It opens the first blob at once, so that you learn of an error before the
// response begins.
func (s *Blobs) Open(ctx context.Context, o Object, offset, length int64) (io.ReadCloser, error) {
	if length < 0 {
		length = o.Size - offset
	}
	if offset < 0 || length < 0 || offset+length > o.Size {
		return nil, errs.InvalidField("range", "expected a range within the object")
	}
	r := &reader{ctx: ctx, store: s.Store, left: pieces(o.blobs, offset, length)}
	if err := r.next(); err != nil {
		return nil, err
	}
	return r, nil
}

// piece is a range in a blob.
type piece struct {
	id             string
	offset, length int64
}

// pieces splits an object's range into ranges in its blobs.
func pieces(blobs []blobRef, offset, length int64) (all []piece) {
	for _, b := range blobs {
		if length == 0 {
			break
		}
		if offset >= b.size {
			offset -= b.size
			continue
		}
		n := min(length, b.size-offset)
		all = append(all, piece{b.id, offset, n})
		offset = 0
		length -= n
	}
	return all
}

// reader reads pieces one after the other.
type reader struct {
	ctx   context.Context
	store blob.Store
	left  []piece
	// current reads the open piece, with expected bytes still to come.
	current  io.ReadCloser
	expected int64
}

// next opens the next piece, if there is one.
func (r *reader) next() error {
	if err := r.Close(); err != nil {
		return explain(err)
	}
	if len(r.left) == 0 {
		return nil
	}
	p := r.left[0]
	r.left = r.left[1:]
	current, err := r.store.Open(r.ctx, p.id, p.offset, p.length)
	if err != nil {
		return explain(err)
	}
	r.current = current
	r.expected = p.length
	return nil
}

func (r *reader) Read(p []byte) (int, error) {
	for r.current != nil {
		n, err := r.current.Read(p)
		r.expected -= int64(n)
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return n, explain(err)
		case err != nil && r.expected > 0:
			return n, io.ErrUnexpectedEOF // the blob is too short
		case n > 0:
			return n, nil
		}
		if err != nil {
			if err := r.next(); err != nil {
				return 0, err
			}
		}
	}
	return 0, io.EOF
}

// WriteTo writes the remaining pieces. If the writer is a connection, the kernel can send the files
// directly.
func (r *reader) WriteTo(w io.Writer) (written int64, err error) {
	for r.current != nil {
		n, err := io.Copy(w, r.current)
		written += n
		r.expected -= n
		if err == nil && r.expected > 0 {
			err = io.ErrUnexpectedEOF // the blob is too short
		}
		if err == nil {
			err = r.next()
		}
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// Close closes the open piece.
func (r *reader) Close() error {
	if r.current == nil {
		return nil
	}
	current := r.current
	r.current = nil
	return current.Close()
}
