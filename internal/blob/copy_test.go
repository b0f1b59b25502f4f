package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"steward/internal/blob"
	"steward/internal/blob/blobtest"
	"steward/internal/id"
)

func openDisk(t *testing.T) (s *blob.Disk, dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := blob.OpenDisk(dir)
	must(t, err)
	return s, dir
}

// copier copies between two stores on disk, and needs only the blobs that it is told.
func copier(t *testing.T, needed ...string) (c blob.Copier, to string) {
	t.Helper()
	from, _ := openDisk(t)
	target, dir := openDisk(t)
	return blob.Copier{From: from, To: target, Needed: func(_ context.Context, id string) (bool, error) {
		return slices.Contains(needed, id), nil
	}}, dir
}

func mustCopy(t *testing.T, c blob.Copier, blobID string, size int64, want blob.Copied) {
	t.Helper()
	got, err := c.Copy(t.Context(), blobID, size)
	must(t, err)
	if got != want {
		t.Errorf("the result is %d, want %d", got, want)
	}
}

func TestCopySkipsWhatIsThere(t *testing.T) {
	c, _ := copier(t)
	blobID := id.Blob(time.Now())
	must(t, c.From.Put(t.Context(), blobID, bytes.NewReader([]byte("content")), 7))
	mustCopy(t, c, blobID, 7, blob.CopyDone)
	if got := blobtest.Read(t, c.To, blobID); string(got) != "content" {
		t.Errorf("copied %q", got)
	}
	mustCopy(t, c, blobID, 7, blob.CopySkipped)
}

func TestCopyOfUnknownSize(t *testing.T) {
	needed := id.Blob(time.Now())
	c, _ := copier(t, needed)
	blobID := id.Blob(time.Now())
	must(t, c.From.Put(t.Context(), blobID, bytes.NewReader([]byte("content")), 7))
	must(t, c.To.Put(t.Context(), blobID, bytes.NewReader([]byte("cont")), 4))
	mustCopy(t, c, blobID, -1, blob.CopyDone)
	if got := blobtest.Read(t, c.To, blobID); string(got) != "content" {
		t.Errorf("copied %q", got)
	}
	mustCopy(t, c, blobID, -1, blob.CopySkipped)
	mustCopy(t, c, id.Blob(time.Now()), -1, blob.CopyGone)
	if _, err := c.Copy(t.Context(), needed, -1); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("a blob that is missing: %v", err)
	}
}

func TestCopiesThatWaitForMemoryEndWithTheirContext(t *testing.T) {
	c, _ := copier(t)
	c.Memory = semaphore.NewWeighted(16 << 20)
	blobID := id.Blob(time.Now())
	must(t, c.From.Put(t.Context(), blobID, bytes.NewReader([]byte("content")), 7))
	must(t, c.Memory.Acquire(t.Context(), 16<<20))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Copy(ctx, blobID, 7)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	c.Memory.Release(16 << 20)
	mustCopy(t, c, blobID, 7, blob.CopyDone)
	if !c.Memory.TryAcquire(16 << 20) {
		t.Error("the memory of a copy was not released")
	}
}

func TestCopyReplacesWhatHasTheWrongSize(t *testing.T) {
	c, _ := copier(t)
	blobID := id.Blob(time.Now())
	must(t, c.From.Put(t.Context(), blobID, bytes.NewReader([]byte("content")), 7))
	must(t, c.To.Put(t.Context(), blobID, bytes.NewReader([]byte("half")), 4))
	mustCopy(t, c, blobID, 7, blob.CopyDone)
	if got := blobtest.Read(t, c.To, blobID); string(got) != "content" {
		t.Errorf("copied %q", got)
	}
}

// TestCopyContinuesAfterACrash has a file of a copy that was killed.
func TestCopyContinuesAfterACrash(t *testing.T) {
	c, dir := copier(t)
	blobID := id.Blob(time.Now())
	must(t, c.From.Put(t.Context(), blobID, bytes.NewReader([]byte("content")), 7))
	must(t, os.MkdirAll(filepath.Join(dir, blobID[24:]), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, blobID[24:], blobID+"~"), []byte("con"), 0o600))
	mustCopy(t, c, blobID, 7, blob.CopyDone)
	if got := blobtest.Read(t, c.To, blobID); string(got) != "content" {
		t.Errorf("copied %q", got)
	}
}

func TestCopyFailsIfABlobIsMissingOrHasAnotherSize(t *testing.T) {
	missing := id.Blob(time.Now())
	c, _ := copier(t, missing)
	if got, err := c.Copy(t.Context(), missing, 7); got != blob.CopyFailed || !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("missing: %d, %v", got, err)
	}
	short := id.Blob(time.Now())
	must(t, c.From.Put(t.Context(), short, bytes.NewReader([]byte("short")), 5))
	if got, err := c.Copy(t.Context(), short, 7); got != blob.CopyFailed || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("too short: %d, %v", got, err)
	}
	if _, err := c.To.Size(t.Context(), short); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("the copy exists: %v", err)
	}
	mustCopy(t, c, id.Blob(time.Now()), 7, blob.CopyGone) // deleted meanwhile
}
