package object

import (
	"context"
	"errors"
	"io"

	"steward/internal/blob"
	"steward/internal/errs"
)

// Open returns the bytes of an object that Get returned: length from offset on, or all that follow if
// length is -1. The first blob is opened at once, so that an error is known before the response
// begins.
func (s *Store) Open(ctx context.Context, o Object, offset, length int64) (io.ReadCloser, error) {
	if length < 0 {
		length = o.Size - offset
	}
	if offset < 0 || length < 0 || offset+length > o.Size {
		return nil, errs.InvalidField("range", "expected a range within the object")
	}
	r := &reader{ctx: ctx, store: s.Blobs, left: pieces(o.blobs, offset, length)}
	if err := r.next(); err != nil {
		return nil, err
	}
	return r, nil
}

// piece is a range of a blob.
type piece struct {
	id             string
	offset, length int64
}

// pieces returns the ranges of blobs that make up a range of an object.
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
	// current reads the piece that is open, of which expected bytes are still to come.
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

// Close closes the piece that is open.
func (r *reader) Close() error {
	if r.current == nil {
		return nil
	}
	current := r.current
	r.current = nil
	return current.Close()
}
