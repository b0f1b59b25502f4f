package object

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
)

// listedKeys are keys whose prefixes and delimiters meet in many ways.
func listedKeys() (keys []string) {
	keys = slices.Clone(oddKeys[:16])
	for i := range 30 {
		keys = append(keys, fmt.Sprintf("n/%02d", i), fmt.Sprintf("n/%d/x", i%7))
	}
	keys = append(keys, "n", "n/", "n//", "n0", "ä", "ä/1", "ä//2")
	slices.Sort(keys)
	return slices.Compact(keys)
}

// TestEntriesAreExact compares the entries that the database finds with those of a slice, by delimiters whose
// end is another character, several, or none.
func TestEntriesAreExact(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		keys := append(listedKeys(), "p\U0010ffff", "p\U0010ffff\U0010ffff", "p\U0010ffffq", "p\ud7ff", "p\ud7ffq", "p\ue000", "pa\U0010ffffq", "pb")
		slices.Sort(keys)
		for _, key := range keys {
			f.put(b, key, "")
		}
		for _, prefix := range prefixes(keys) {
			for _, delimiter := range []string{"/", "//", "0", "ä", "\ud7ff", "\U0010ffff", "a\U0010ffff", "\U0010ffff\U0010ffff"} {
				f.compareEntries(b, keys, ListRequest{Prefix: prefix, Delimiter: delimiter, Limit: 1000})
				f.compareEntries(b, keys, ListRequest{Prefix: prefix, Delimiter: delimiter, After: prefix, Limit: 2})
				f.compareEntries(b, keys, ListRequest{Delimiter: delimiter, After: prefix, Limit: 7})
			}
		}
	})
}

// compareEntries reads a page whose rows are those of its entries.
func (f *fixture) compareEntries(b *Bucket, keys []string, r ListRequest) {
	f.t.Helper()
	objects, prefixes, truncated := modelList(keys, r)
	l, err := newLister(r)
	must(f.t, err)
	rows, err := entryRows(f.db.Read(f.context()), b, l, r.Limit+1)
	must(f.t, err)
	var got []string
	for _, o := range rows {
		if l.add(o.Key) {
			got = append(got, o.Key)
		}
	}
	if !slices.Equal(got, objects) || !slices.Equal(l.Prefixes, prefixes) || l.Truncated != truncated || len(rows) > l.entries+1 {
		f.t.Fatalf("%+v: %q, %q, %v of %q; want %q, %q, %v", r, got, l.Prefixes, l.Truncated, keysOf(rows), objects, prefixes, truncated)
	}
}

// prefixes returns all prefixes of keys that are UTF-8.
func prefixes(keys []string) (all []string) {
	for _, key := range keys {
		for i := range key {
			all = append(all, key[:i])
		}
		all = append(all, key, key+"x")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestListsAreExact compares lists by every prefix, offset and delimiter with those of a slice, over
// blocks of few objects.
func TestListsAreExact(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		keys := listedKeys()
		for i, key := range keys {
			f.put(b, key, strings.Repeat("x", i))
		}
		f.check()
		for _, prefix := range prefixes(keys) {
			f.comparePages(b, keys, prefix)
			for _, delimiter := range []string{"", "/", "//", "0"} {
				for _, limit := range []int{1, 2, 7, 1000} {
					f.compareLists(b, keys, ListRequest{Prefix: prefix, Delimiter: delimiter, Limit: limit})
				}
			}
			f.compareFolders(b, keys, prefix, 3)
		}
		for _, after := range prefixes(keys) {
			f.compareLists(b, keys, ListRequest{Prefix: "n/", Delimiter: "/", After: after, Limit: 3})
			f.compareLists(b, keys, ListRequest{After: after, Limit: 3})
		}
	})
}

// compareLists reads a list to its end.
func (f *fixture) compareLists(b *Bucket, keys []string, r ListRequest) {
	f.t.Helper()
	for {
		objects, prefixes, truncated := modelList(keys, r)
		got, err := f.index.List(f.context(), b, r)
		must(f.t, err)
		if !slices.Equal(keysOf(got.Objects), objects) || !slices.Equal(got.Prefixes, prefixes) || got.Truncated != truncated {
			f.t.Fatalf("%+v: %q, %q, %v; want %q, %q, %v", r, keysOf(got.Objects), got.Prefixes, got.Truncated, objects, prefixes, truncated)
		}
		if !truncated {
			return
		}
		if got.Next <= r.After {
			f.t.Fatalf("%+v continues after %q", r, got.Next)
		}
		r.After = got.Next
	}
}

// comparePages reads pages by every offset.
func (f *fixture) comparePages(b *Bucket, keys []string, prefix string) {
	f.t.Helper()
	var with []string
	for _, key := range keys {
		if strings.HasPrefix(key, prefix) {
			with = append(with, key)
		}
	}
	for offset := range len(with) + 2 {
		f.comparePage(b, with, prefix, window{int64(offset), 3})
	}
}

func (f *fixture) comparePage(b *Bucket, with []string, prefix string, w window) {
	f.t.Helper()
	offset, limit := int(w.offset), w.limit
	from := min(offset, len(with))
	want := with[from:min(from+limit, len(with))]
	got, err := f.index.Page(f.context(), b, prefix, w.offset, limit)
	must(f.t, err)
	if !slices.Equal(keysOf(got.Objects), want) || got.Total != int64(len(with)) || got.More != (offset+limit < len(with)) {
		f.t.Fatalf("%q from %d: %q of %d, %v; want %q of %d", prefix, offset, keysOf(got.Objects), got.Total, got.More, want, len(with))
	}
	if offset == 0 || offset > len(with) {
		return
	}
	after, err := f.index.PageAfter(f.context(), b, prefix, with[offset-1], limit)
	must(f.t, err)
	if diff := cmp.Diff(got, after, cmp.AllowUnexported(Object{}, blobRef{}), cmpopts.EquateEmpty()); diff != "" {
		f.t.Fatalf("%q from %d: -offset +cursor:\n%s", prefix, offset, diff)
	}
}

// compareFolders reads the view of a folder to its end. Objects have as many bytes as their number
// in keys.
func (f *fixture) compareFolders(b *Bucket, keys []string, prefix string, limit int) {
	f.t.Helper()
	sizes := map[string]int64{}
	for i, key := range keys {
		sizes[key] = int64(i)
	}
	f.compareFoldersOf(b, sizes, prefix, limit)
}

func (f *fixture) compareFoldersOf(b *Bucket, sizes map[string]int64, prefix string, limit int) {
	f.t.Helper()
	want := map[string]Folder{}
	var objects []string
	for key, size := range sizes {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		at := strings.Index(rest, "/")
		if at < 0 {
			objects = append(objects, key)
			continue
		}
		name := prefix + rest[:at+1]
		folder := want[name]
		want[name] = Folder{name, folder.ObjectCount + 1, folder.TotalSize + size}
	}
	slices.Sort(objects)
	got := map[string]Folder{}
	var found []string
	for after := ""; ; {
		p, err := f.index.Folders(f.context(), b, prefix, after, limit)
		must(f.t, err)
		for _, folder := range p.Folders {
			got[folder.Prefix] = folder
		}
		found = append(found, keysOf(p.Objects)...)
		if p.Next == "" {
			break
		}
		after = p.Next
	}
	if diff := cmp.Diff(want, got); diff != "" || !slices.Equal(found, objects) {
		f.t.Fatalf("folders below %q: objects %q, want %q; folders -want +got:\n%s", prefix, found, objects, diff)
	}
}

func TestListErrors(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), small)
	b := f.bucket(alice, "photos")
	f.put(b, "k", "x")
	for _, bad := range []string{"\xff", "a\x00"} {
		_, err := f.index.List(t.Context(), b, ListRequest{Prefix: bad, Limit: 1})
		mustBe(t, err, errs.Invalid)
		_, err = f.index.Page(t.Context(), b, bad, 0, 1)
		mustBe(t, err, errs.Invalid)
		_, err = f.index.Folders(t.Context(), b, bad, "", 1)
		mustBe(t, err, errs.Invalid)
	}
	none, err := f.index.List(t.Context(), b, ListRequest{})
	must(t, err)
	if none.Truncated || len(none.Objects) > 0 {
		t.Errorf("a list of nothing: %+v", none)
	}
	must(t, f.deleteBucket(alice, "photos", false))
	_, err = f.index.List(t.Context(), b, ListRequest{Limit: 1})
	mustBe(t, err, errs.NotFound)
	_, err = f.index.Page(t.Context(), b, "", 0, 1)
	mustBe(t, err, errs.NotFound)
	_, err = f.index.Folders(t.Context(), b, "", "", 1)
	mustBe(t, err, errs.NotFound)
	_, err = f.index.Get(t.Context(), b, "k")
	mustBe(t, err, errs.NotFound)
	_, err = f.totals.Bucket(t.Context(), b)
	mustBe(t, err, errs.NotFound)
	_, err = f.index.Put(t.Context(), b, PutRequest{Key: "k"}, strings.NewReader("x"), 1)
	mustBe(t, err, errs.NotFound)
	_, err = f.uploads.Create(t.Context(), b, PutRequest{Key: "k"})
	mustBe(t, err, errs.NotFound)
}
