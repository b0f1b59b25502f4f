// Package blobtest has the test suite that every blob.Store must pass.
package blobtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"steward/internal/blob"
	"steward/internal/id"
)

// Run runs the suite. open returns a new, empty store.
func Run(t *testing.T, open func(t *testing.T) blob.Store) {
	for name, test := range map[string]func(t *testing.T, s blob.Store){
		"a blob is read in whole and in part":       testReads,
		"the size may be unknown":                   testUnknownSize,
		"a wrong size leaves nothing":               testWrongSize,
		"an error of the reader leaves nothing":     testReaderError,
		"a context that ends leaves nothing":        testContext,
		"what does not exist is not found":          testMissing,
		"what is no id never reaches another place": testNoID,
		"deleting twice is fine":                    testDelete,
		"a list has every blob":                     testList,
		"concurrent writers do not meet":            testConcurrent,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func newID() string { return id.Blob(time.Now()) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// Read returns a blob's bytes.
func Read(t *testing.T, s blob.Store, blobID string) []byte {
	t.Helper()
	r, err := s.Open(t.Context(), blobID, 0, -1)
	must(t, err)
	return readAll(t, r)
}

func readAll(t *testing.T, r io.ReadCloser) []byte {
	t.Helper()
	all, err := io.ReadAll(r)
	must(t, err)
	must(t, r.Close())
	return all
}

// IDs returns all blob ids in ascending order. It reads pages of three.
func IDs(t *testing.T, s blob.Store) []string {
	t.Helper()
	ids := []string{}
	for cursor := ""; ; {
		blobs, next, err := s.List(t.Context(), cursor, 3)
		must(t, err)
		for _, b := range blobs {
			ids = append(ids, b.ID)
		}
		if next == "" {
			slices.Sort(ids)
			return slices.Compact(ids)
		}
		if next == cursor {
			t.Fatalf("the list stays at %q", cursor)
		}
		cursor = next
	}
}

func mustBeEmpty(t *testing.T, s blob.Store, blobID string) {
	t.Helper()
	if _, err := s.Open(t.Context(), blobID, 0, -1); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("open: %v, want ErrNotFound", err)
	}
	if _, err := s.Size(t.Context(), blobID); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("size: %v, want ErrNotFound", err)
	}
	if ids := IDs(t, s); len(ids) > 0 {
		t.Errorf("left: %v", ids)
	}
}

func testReads(t *testing.T, s blob.Store) {
	for _, size := range []int{0, 1, 4096, 1<<20 + 7} {
		content := random(size)
		blobID := newID()
		must(t, s.Put(t.Context(), blobID, bytes.NewReader(content), int64(size)))
		if got, err := s.Size(t.Context(), blobID); err != nil || got != int64(size) {
			t.Errorf("size %d, %v; want %d", got, err, size)
		}
		for _, r := range [][2]int64{{0, -1}, {0, int64(size)}, {0, 0}, {int64(size) / 2, -1}, {int64(size) / 3, int64(size) / 2}} {
			if size == 0 && r[0] > 0 {
				continue
			}
			want := content[r[0]:]
			if r[1] >= 0 {
				want = want[:r[1]]
			}
			part, err := s.Open(t.Context(), blobID, r[0], r[1])
			must(t, err)
			if got := readAll(t, part); !bytes.Equal(got, want) {
				t.Errorf("%d bytes, range %v: got %d bytes", size, r, len(got))
			}
		}
	}
}

func testUnknownSize(t *testing.T, s blob.Store) {
	for _, size := range []int{0, 5, 17<<20 + 3} {
		content := random(size)
		blobID := newID()
		must(t, s.Put(t.Context(), blobID, iotest.HalfReader(bytes.NewReader(content)), -1))
		if got := Read(t, s, blobID); !bytes.Equal(got, content) {
			t.Errorf("%d bytes: got %d", size, len(got))
		}
	}
}

func testWrongSize(t *testing.T, s blob.Store) {
	for _, size := range []int64{99, 101} {
		blobID := newID()
		if err := s.Put(t.Context(), blobID, bytes.NewReader(random(100)), size); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("size %d: %v", size, err)
		}
		mustBeEmpty(t, s, blobID)
	}
}

func testReaderError(t *testing.T, s blob.Store) {
	broken := errors.New("broken")
	for _, size := range []int64{-1, 1 << 20, 20 << 20} {
		blobID := newID()
		r := io.MultiReader(bytes.NewReader(random(1<<19)), iotest.ErrReader(broken))
		if err := s.Put(t.Context(), blobID, r, size); !errors.Is(err, broken) {
			t.Errorf("size %d: %v", size, err)
		}
		mustBeEmpty(t, s, blobID)
	}
}

func testContext(t *testing.T, s blob.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	blobID := newID()
	r := io.MultiReader(bytes.NewReader(random(1<<16)), readerFunc(func(p []byte) (int, error) {
		cancel()
		return len(p), nil
	}))
	if err := s.Put(ctx, blobID, r, -1); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want Canceled", err)
	}
	mustBeEmpty(t, s, blobID)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func testMissing(t *testing.T, s blob.Store) {
	mustBeEmpty(t, s, newID())
	if _, err := s.Open(t.Context(), newID(), 5, 10); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("a range: %v", err)
	}
}

func testNoID(t *testing.T, s blob.Store) {
	for _, name := range []string{"", "x", "../../../../../../../etc/hosts", "01arz3ndektsv4rrffq69g5f/.", id.New(id.Key)} {
		if err := s.Put(t.Context(), name, bytes.NewReader(nil), 0); err == nil {
			t.Errorf("%q is written", name)
		}
		if _, err := s.Open(t.Context(), name, 0, -1); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("%q: %v", name, err)
		}
		must(t, s.Delete(t.Context(), name))
	}
}

func testDelete(t *testing.T, s blob.Store) {
	blobID := newID()
	must(t, s.Put(t.Context(), blobID, bytes.NewReader(random(10)), 10))
	must(t, s.Delete(t.Context(), blobID))
	must(t, s.Delete(t.Context(), blobID))
	mustBeEmpty(t, s, blobID)
}

func testList(t *testing.T, s blob.Store) {
	var want []string
	for range 10 {
		want = append(want, newID())
		must(t, s.Put(t.Context(), want[len(want)-1], bytes.NewReader(random(3)), 3))
	}
	if got := IDs(t, s); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	blobs, _, err := s.List(t.Context(), "", 100)
	must(t, err)
	if age := time.Since(blobs[0].ModTime); len(blobs) != 10 || age > time.Hour || age < -time.Hour {
		t.Errorf("%d blobs, the first one is %s old", len(blobs), age)
	}
}

func testConcurrent(t *testing.T, s blob.Store) {
	const writers, each = 8, 8
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				content := []byte(fmt.Sprintf("%d of %d", i, w))
				blobID := newID()
				if err := s.Put(t.Context(), blobID, bytes.NewReader(content), int64(len(content))); err != nil {
					t.Error(err)
					return
				}
				if got := Read(t, s, blobID); !bytes.Equal(got, content) {
					t.Errorf("%q instead of %q", got, content)
				}
			}
		})
	}
	all.Wait()
	if n := len(IDs(t, s)); n != writers*each {
		t.Errorf("%d blobs", n)
	}
}
