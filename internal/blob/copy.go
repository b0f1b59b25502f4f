package blob

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// atOnce caps the items that Each works on at the same time.
const atOnce = 8

// Each calls f with each item, for several at the same time, and stops at the first error. A blob that is
// being copied takes up to 16 MiB.
func Each[T any](ctx context.Context, items []T, f func(context.Context, T) error) error {
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, item := range items {
		if running.Err() != nil {
			break
		}
		group.Go(func() error { return f(running, item) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// Copied says how copying a blob ended.
type Copied int

// Outcomes of copying a blob.
const (
	// CopyFailed means that the other store does not have the blob.
	CopyFailed Copied = iota
	// CopyDone means that the blob was copied.
	CopyDone
	// CopySkipped means that the other store already had the blob, with the right size.
	CopySkipped
	// CopyGone means that neither store has the blob, and nothing refers to it any more.
	CopyGone
)

// We try to copy a blob copyTries times before we give up.
const copyTries = 3

// Copier copies blobs from one store to another.
type Copier struct {
	From, To Store
	// Needed reports whether something still refers to a blob.
	Needed func(ctx context.Context, id string) (bool, error)
	// Memory bounds the bytes that all copies together hold in memory. It must fit a part of 16 MiB. It may
	// be nil.
	Memory *semaphore.Weighted
}

// Copy copies a blob, unless the other store already has it. If size is -1, it uses the blob's own size. It
// fails if the blob has another size, or is missing although something needs it.
func (c Copier) Copy(ctx context.Context, id string, size int64) (copied Copied, err error) {
	for range copyTries {
		copied, err = c.try(ctx, id, size)
		if err == nil || ctx.Err() != nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrNotFound) {
			break
		}
	}
	if errors.Is(err, ErrNotFound) {
		needed, readErr := c.Needed(ctx, id)
		if readErr != nil {
			return CopyFailed, readErr
		}
		if !needed {
			return CopyGone, nil
		}
	}
	return copied, err
}

func (c Copier) try(ctx context.Context, id string, size int64) (Copied, error) {
	if size < 0 {
		known, err := c.From.Size(ctx, id)
		if err != nil {
			return CopyFailed, fmt.Errorf("look up the size: %w", err)
		}
		size = known
	}
	there, err := c.To.Size(ctx, id)
	if err == nil && there == size {
		return CopySkipped, nil
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return CopyFailed, fmt.Errorf("look up the copy: %w", err)
	}
	if err == nil || size > partSize { // an interrupted copy may have left parts
		if err := c.To.Delete(ctx, id); err != nil {
			return CopyFailed, fmt.Errorf("delete what is there: %w", err)
		}
	}
	if err := c.transfer(ctx, id, size); err != nil {
		return CopyFailed, err
	}
	there, err = c.To.Size(ctx, id)
	if err != nil {
		return CopyFailed, fmt.Errorf("look up the copy: %w", err)
	}
	if there != size {
		return CopyFailed, fmt.Errorf("the copy has %d bytes instead of %d", there, size)
	}
	return CopyDone, nil
}

func (c Copier) transfer(ctx context.Context, id string, size int64) error {
	if c.Memory != nil {
		held := min(size, partSize)
		if err := c.Memory.Acquire(ctx, held); err != nil {
			return err
		}
		defer c.Memory.Release(held)
	}
	r, err := c.From.Open(ctx, id, 0, -1)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { _ = r.Close() }()
	err = c.To.Put(ctx, id, r, size)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it has not %d bytes: %w", size, err)
	}
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	return nil
}
