package blob_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"steward/internal/blob"
	"steward/internal/blob/blobtest"
	"steward/internal/id"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDisk(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store {
		s, err := blob.OpenDisk(filepath.Join(t.TempDir(), "blobs"))
		must(t, err)
		return s
	})
}

func TestDiskKeepsBlobsInDirectoriesByTheirEnd(t *testing.T) {
	dir := t.TempDir()
	s, err := blob.OpenDisk(dir)
	must(t, err)
	blobID := id.Blob(time.Now())
	must(t, s.Put(t.Context(), blobID, bytes.NewReader([]byte("x")), 1))
	info, err := os.Stat(filepath.Join(dir, blobID[24:], blobID))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// TestDiskListsWhatACrashLeft writes what a Put that was killed leaves.
func TestDiskListsWhatACrashLeft(t *testing.T) {
	dir := t.TempDir()
	s, err := blob.OpenDisk(dir)
	must(t, err)
	blobID := id.Blob(time.Now())
	must(t, os.MkdirAll(filepath.Join(dir, "00"), 0o700))
	must(t, os.MkdirAll(filepath.Join(dir, blobID[24:]), 0o700))
	file := filepath.Join(dir, blobID[24:], blobID+"~")
	must(t, os.WriteFile(file, []byte("half"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "00", "README"), []byte("not a blob"), 0o600))
	if _, err := s.Open(t.Context(), blobID, 0, -1); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("half a blob is opened: %v", err)
	}
	if got := blobtest.IDs(t, s); !slices.Equal(got, []string{blobID}) {
		t.Errorf("listed %v", got)
	}
	must(t, s.Delete(t.Context(), blobID))
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestDiskErrors(t *testing.T) {
	for cause, want := range map[error]error{
		syscall.ENOSPC: blob.ErrFull, syscall.EDQUOT: blob.ErrFull, syscall.EIO: blob.ErrUnavailable,
		syscall.EROFS: blob.ErrUnavailable, syscall.ENOENT: blob.ErrNotFound,
	} {
		if err := blob.ExplainDisk(&os.PathError{Op: "write", Path: "x", Err: cause}); !errors.Is(err, want) || !errors.Is(err, cause) {
			t.Errorf("%v became %v, want %v", cause, err, want)
		}
	}
}

func TestDiskIsUnavailableWhenItCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	s, err := blob.OpenDisk(dir)
	must(t, err)
	blobID := id.Blob(time.Now())
	must(t, os.WriteFile(filepath.Join(dir, blobID[24:]), nil, 0o600)) // a file instead of the directory
	if err := s.Put(t.Context(), blobID, bytes.NewReader(nil), 0); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
}

func TestDiskSweepsHalves(t *testing.T) {
	dir := t.TempDir()
	d, err := blob.OpenDisk(dir)
	must(t, err)
	whole := id.Blob(time.Now())
	must(t, d.Put(t.Context(), whole, bytes.NewReader([]byte("x")), 1))
	half := filepath.Join(dir, whole[24:], id.Blob(time.Now())[:24]+whole[24:]+"~")
	must(t, os.WriteFile(half, []byte("half"), 0o600))
	must(t, d.Sweep(t.Context(), time.Now().Add(-time.Hour)))
	if _, err := os.Stat(half); err != nil {
		t.Errorf("a file that is being written was deleted: %v", err)
	}
	must(t, d.Sweep(t.Context(), time.Now().Add(time.Hour)))
	if got := blobtest.IDs(t, d); !slices.Equal(got, []string{whole}) {
		t.Errorf("listed %v", got)
	}
}
