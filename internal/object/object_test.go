package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/blob"
	"steward/internal/blob/blobtest"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
)

// oddKeys are ordinary keys, however they look like paths.
var oddKeys = []string{
	"a", "a/b", "d//x", "x/", "/", "/leading", "..", "../../etc/passwd", ".", " ", "ä/ö", "\u2028", "a\nb", "%2e%2e", "\x01", "\x7f",
	"\uffff", "\U0010ffff", strings.Repeat("k", 1024), strings.Repeat("\U0010ffff", 256),
}

func TestObjectLife(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, Limits{})
		b := f.bucket(alice, "photos")
		attributes := Attributes{
			CacheControl: "no-store", ContentDisposition: "inline", ContentEncoding: "br", ContentLanguage: "de", Expires: "never",
			Metadata: map[string]string{"a": "ä"}, Tags: Tags{{"t", "1"}},
		}
		sum := &Checksum{Algorithm: "CRC32", Value: "NSRBwg==", Type: "FULL_OBJECT"}
		o, err := f.index.Put(t.Context(), b, PutRequest{
			Key: "k", ContentType: "text/plain", Attributes: attributes, Checksum: func() (*Checksum, error) { return sum, nil },
			Tier: Archive, Origin: Origin{RequestID: "req_1", Address: "192.0.2.1"},
		}, strings.NewReader("abc"), -1)
		must(t, err)
		if o.ETag != "900150983cd24fb0d6963f7d28e17f72" || o.Size != 3 || o.Multipart() || !slices.Equal(o.PartSizes(), []int64{3}) {
			t.Errorf("got %+v", o)
		}
		got, err := f.index.Get(t.Context(), b, "k")
		must(t, err)
		if diff := cmp.Diff(o, got, cmp.AllowUnexported(Object{}, blobRef{})); diff != "" {
			t.Errorf("-put +got:\n%s", diff)
		}
		attributes.Checksum = sum
		if diff := cmp.Diff(attributes, got.Attributes); diff != "" {
			t.Errorf("attributes -want +got:\n%s", diff)
		}
		if f.read(b, "k") != "abc" {
			t.Error("other bytes")
		}
		tagged, err := f.index.SetTags(t.Context(), b, "k", Tags{{"t", "2"}}, Origin{})
		must(t, err)
		if tagged.Attributes.Tags[0] != (Tag{"t", "2"}) || tagged.ModifiedAt != o.ModifiedAt || tagged.Attributes.Metadata["a"] != "ä" {
			t.Errorf("tagged %+v", tagged)
		}
		deleted, err := f.index.Delete(t.Context(), b, DeleteRequest{Keys: []string{"k", "missing", "k"}})
		must(t, err)
		if !slices.Equal(deleted, []string{"k"}) {
			t.Errorf("deleted %v", deleted)
		}
		_, err = f.index.Get(t.Context(), b, "k")
		mustBe(t, err, errs.NotFound)
		_, err = f.index.SetTags(t.Context(), b, "k", nil, Origin{})
		mustBe(t, err, errs.NotFound)
		var names []string
		for _, e := range f.events {
			names = append(names, fmt.Sprintf("%s %s %d %s", e.Name, e.Key, e.Size, e.Address))
		}
		want := []string{"ObjectCreated:Put k 3 192.0.2.1", "ObjectTagging:Put k 3 ", "ObjectRemoved:Delete k 0 "}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("events -want +got:\n%s", diff)
		}
	})
}

func TestOddKeysAreOrdinary(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		for _, key := range oddKeys {
			f.put(b, key, key)
		}
		for _, key := range oddKeys {
			if f.read(b, key) != key {
				t.Errorf("%q has other bytes", key)
			}
		}
		listed, err := f.index.List(t.Context(), b, ListRequest{Limit: 1000})
		must(t, err)
		var keys []string
		for _, o := range listed.Objects {
			keys = append(keys, o.Key)
		}
		want := slices.Sorted(slices.Values(oddKeys))
		if diff := cmp.Diff(want, keys); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		for _, key := range []string{"", strings.Repeat("k", 1025), "a\x00b", "\xff"} {
			_, err := f.index.Put(t.Context(), b, PutRequest{Key: key}, strings.NewReader(""), 0)
			mustBe(t, err, errs.Invalid)
			_, err = f.index.Get(t.Context(), b, key)
			mustBe(t, err, errs.NotFound)
			deleted, err := f.index.Delete(t.Context(), b, DeleteRequest{Keys: []string{key}})
			must(t, err)
			if len(deleted) > 0 {
				t.Errorf("%q was deleted", key)
			}
		}
	})
}

func TestConditions(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, Limits{})
		b := f.bucket(alice, "photos")
		put := func(c Conditions) error {
			_, err := f.index.Put(t.Context(), b, PutRequest{Key: "k", Conditions: c}, strings.NewReader("abc"), 3)
			return err
		}
		mustBe(t, put(Conditions{IfMatch: "*"}), errs.NotFound)
		must(t, put(Conditions{IfNoneMatch: "*"}))
		mustBe(t, put(Conditions{IfNoneMatch: "*"}), errs.PreconditionFailed)
		mustBe(t, put(Conditions{IfMatch: `"other"`}), errs.PreconditionFailed)
		must(t, put(Conditions{IfMatch: `"900150983cd24fb0d6963f7d28e17f72"`}))
		must(t, put(Conditions{IfMatch: "x, 900150983cd24fb0d6963f7d28e17f72"}))
		_, err := f.index.Delete(t.Context(), b, DeleteRequest{Keys: []string{"k"}, IfMatch: "other"})
		mustBe(t, err, errs.PreconditionFailed)
		_, err = f.index.Delete(t.Context(), b, DeleteRequest{Keys: []string{"k"}, IfMatch: "900150983cd24fb0d6963f7d28e17f72"})
		must(t, err)
	})
}

// TestRefusedWriteLeavesNoBytes has the condition fail in the transaction, not before it.
func TestRefusedWriteLeavesNoBytes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, Limits{})
		b := f.bucket(alice, "photos")
		racing := readerFunc(func(p []byte) (int, error) {
			f.put(b, "k", "first")
			return 0, io.EOF
		})
		_, err := f.index.Put(t.Context(), b, PutRequest{Key: "k", Conditions: Conditions{IfNoneMatch: "*"}}, racing, -1)
		mustBe(t, err, errs.PreconditionFailed)
		failed := errors.New("checksum")
		_, err = f.index.Put(t.Context(), b, PutRequest{Key: "k", Checksum: func() (*Checksum, error) { return nil, failed }},
			strings.NewReader("x"), 1)
		if !errors.Is(err, failed) {
			t.Errorf("%v, want the error of the checksum", err)
		}
		if ids := blobtest.IDs(t, f.blobs.Store); len(ids) != 1 || f.read(b, "k") != "first" {
			t.Errorf("%d blobs", len(ids))
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestPutErrors(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), Limits{})
	b := f.bucket(alice, "photos")
	put := func(r io.Reader, size int64) error {
		_, err := f.index.Put(t.Context(), b, PutRequest{Key: "k"}, r, size)
		return err
	}
	mustBe(t, put(strings.NewReader("abc"), 4), errs.Malformed)
	mustBe(t, put(strings.NewReader("abc"), 2), errs.Malformed)
	broken := errors.New("broken")
	if err := put(iotest.ErrReader(broken), -1); !errors.Is(err, broken) {
		t.Errorf("%v, want the error of the reader", err)
	}
	for _, cause := range []error{blob.ErrFull, blob.ErrUnavailable} {
		f.blobs.Store = failingBlobs{f.blobs.Store, cause}
		mustBe(t, put(strings.NewReader("abc"), 3), errs.Unavailable)
	}
	_, err := f.index.Get(t.Context(), b, "k")
	mustBe(t, err, errs.NotFound)
}

// failingBlobs is a store that is full or away.
type failingBlobs struct {
	blob.Store
	err error
}

func (s failingBlobs) Put(context.Context, string, io.Reader, int64) error { return s.err }

// TestSlowUploadIsRefused shows that no row refers to a blob that the sweep may remove.
func TestSlowUploadIsRefused(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), Limits{})
	b := f.bucket(alice, "photos")
	slow := readerFunc(func(p []byte) (int, error) {
		f.clock.advance(13 * time.Hour)
		return 0, io.EOF
	})
	_, err := f.index.Put(t.Context(), b, PutRequest{Key: "k"}, slow, -1)
	mustBe(t, err, errs.Unavailable)
	u, err := f.uploads.Create(t.Context(), b, PutRequest{Key: "k"})
	must(t, err)
	_, err = f.uploads.PutPart(t.Context(), b, PartRequest{Key: "k", UploadID: u.ID, Number: 1}, slow, -1)
	mustBe(t, err, errs.Unavailable)
}

func TestCopy(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, Limits{})
		from := f.bucket(alice, "from")
		to := f.bucket(alice, "to-bucket")
		src := f.put(from, "k", "content")
		copied, err := f.index.Copy(t.Context(), src, to, PutRequest{Key: "c", ContentType: "text/plain"})
		must(t, err)
		if f.read(to, "c") != "content" || copied.ETag != src.ETag || copied.blobs[0].id == src.blobs[0].id {
			t.Errorf("copied %+v", copied)
		}
		f.clock.advance(time.Second)
		self, err := f.index.Copy(t.Context(), src, from, PutRequest{Key: "k", ContentType: "text/html", Tier: Archive})
		must(t, err)
		if self.blobs[0] != src.blobs[0] || self.ContentType != "text/html" || self.Tier != Archive || self.ModifiedAt == src.ModifiedAt {
			t.Errorf("onto itself %+v", self)
		}
		must(t, f.cleaner.CollectGarbage(t.Context()))
		if f.read(from, "k") != "content" {
			t.Error("the bytes are gone")
		}
		f.put(from, "k", "changed")
		_, err = f.index.Copy(t.Context(), self, from, PutRequest{Key: "k"})
		mustBe(t, err, errs.Conflict)
	})
}

func TestRangesOverParts(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	f := newFixture(t, d, small)
	b := f.bucket(alice, "photos")
	o := f.multipart(b, "k", "abcde", "fgh", "ijklm", "n")
	const all = "abcdefghijklmn"
	for from := range len(all) + 1 {
		for to := from; to <= len(all); to++ {
			r, err := f.blobs.Open(t.Context(), o, int64(from), int64(to-from))
			must(t, err)
			got, err := io.ReadAll(r)
			must(t, err)
			must(t, r.Close())
			if string(got) != all[from:to] {
				t.Fatalf("%d to %d: %q", from, to, got)
			}
		}
	}
	_, err := f.blobs.Open(t.Context(), o, 10, 5)
	mustBe(t, err, errs.Invalid)
}

func TestMissingBytesAreAnError(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), small)
	b := f.bucket(alice, "photos")
	o := f.multipart(b, "k", "abc", "def")
	must(t, f.blobs.Store.Delete(t.Context(), o.blobs[1].id))
	r, err := f.blobs.Open(t.Context(), o, 0, -1)
	must(t, err)
	if got, err := io.ReadAll(r); err == nil {
		t.Errorf("read %q without an error", got)
	}
}

func TestReferencesInJSON(t *testing.T) {
	refs := []blobRef{{"01arz3ndektsv4rrffq69g5fav", 1 << 40}, {"x", 0}}
	text, err := json.Marshal(refs)
	must(t, err)
	if string(text) != `[["01arz3ndektsv4rrffq69g5fav",1099511627776],["x",0]]` {
		t.Errorf("encoded %s", text)
	}
	var got []blobRef
	must(t, json.Unmarshal(text, &got))
	if !slices.Equal(got, refs) {
		t.Errorf("decoded %v", got)
	}
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{
		"": afterAll, "a": "b", "a/": "a0", "é": "ê", "\x7f": "\u0080", "\ud7ff": "\ue000", "a\U0010ffff": "b", "\U0010ffff": afterAll,
	} {
		if got := prefixEnd(prefix); got != want {
			t.Errorf("%q: %q, want %q", prefix, got, want)
		}
	}
	if longest := strings.Repeat("\U0010ffff", 256); afterAll <= longest {
		t.Error("a key sorts after the end")
	}
}

func nothing(*db.Tx) error { return nil }

// TestDeletePrefixCanBeInterrupted ends the request after the first transaction.
func TestDeletePrefixCanBeInterrupted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		for i := range 20 {
			f.put(b, fmt.Sprintf("a/%02d", i), "x")
		}
		f.put(b, "b", "x")
		ctx, cancel := context.WithCancel(t.Context())
		f.index.Webhooks = hooks{event: func(tx *db.Tx, _ [][]byte) error {
			tx.OnCommit(cancel)
			return nil
		}}
		first, err := f.index.DeletePrefix(ctx, b, "a/", Origin{}, nothing)
		if !errors.Is(err, context.Canceled) || first != int64(small.Batch) {
			t.Errorf("deleted %d, %v", first, err)
		}
		f.check()
		rest, err := f.index.DeletePrefix(t.Context(), b, "a/", Origin{}, nothing)
		must(t, err)
		if first+rest != 20 {
			t.Errorf("deleted %d and %d", first, rest)
		}
		u, err := f.totals.Bucket(t.Context(), b)
		must(t, err)
		if u.Objects != 1 {
			t.Errorf("%d objects are left", u.Objects)
		}
	})
}
