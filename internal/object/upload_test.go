package object

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
)

// multipart uploads an object in parts.
func (f *fixture) multipart(b *Bucket, key string, parts ...string) Object {
	f.t.Helper()
	u, err := f.uploads.Create(context.Background(), b, PutRequest{Key: key, ContentType: "text/plain"})
	must(f.t, err)
	complete := CompleteRequest{Key: key, UploadID: u.ID, Size: -1}
	for i, content := range parts {
		p := f.part(b, u, i+1, content)
		complete.Parts = append(complete.Parts, CompletedPart{Number: p.Number, ETag: p.ETag})
	}
	o, err := f.uploads.Complete(context.Background(), b, complete)
	must(f.t, err)
	return o
}

func (f *fixture) part(b *Bucket, u Upload, number int, content string) Part {
	f.t.Helper()
	p, err := f.uploads.PutPart(context.Background(), b, PartRequest{Key: u.Key, UploadID: u.ID, Number: number}, strings.NewReader(content), -1)
	must(f.t, err)
	return p
}

func TestMultipart(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		o := f.multipart(b, "k", "abc", "def", "g")
		// The ETag that S3 clients compute: md5(md5(abc) + md5(def) + md5(g)).
		if o.Size != 7 || !o.Multipart() || !strings.HasSuffix(o.ETag, "-3") || o.ContentType != "text/plain" ||
			!slices.Equal(o.PartSizes(), []int64{3, 3, 1}) {
			t.Errorf("got %+v", o)
		}
		if f.read(b, "k") != "abcdefg" {
			t.Error("other bytes")
		}
		u, err := f.totals.Bucket(t.Context(), b)
		must(t, err)
		if u.Objects != 1 || u.Bytes != 7 {
			t.Errorf("usage %+v", u)
		}
		if e := f.events[len(f.events)-1]; e.Name != EventComplete || e.Size != 7 {
			t.Errorf("event %+v", e)
		}
	})
}

func TestCompleteChecksParts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		u, err := f.uploads.Create(t.Context(), b, PutRequest{Key: "k"})
		must(t, err)
		one := f.part(b, u, 1, "abc")
		two := f.part(b, u, 2, "d")
		three := f.part(b, u, 3, "efg")
		named := func(parts ...Part) (all []CompletedPart) {
			for _, p := range parts {
				all = append(all, CompletedPart{Number: p.Number, ETag: p.ETag})
			}
			return all
		}
		complete := func(c CompleteRequest) error {
			c.Key, c.UploadID = "k", u.ID
			_, err := f.uploads.Complete(t.Context(), b, c)
			return err
		}
		wrong := errors.New("wrong checksum")
		for name, test := range map[string]struct {
			c    CompleteRequest
			want error
		}{
			"none":      {CompleteRequest{Size: -1}, ErrInvalidPart},
			"order":     {CompleteRequest{Size: -1, Parts: named(three, one)}, ErrPartOrder},
			"twice":     {CompleteRequest{Size: -1, Parts: named(one, one)}, ErrPartOrder},
			"too small": {CompleteRequest{Size: -1, Parts: named(one, two, three)}, ErrPartTooSmall},
			"missing":   {CompleteRequest{Size: -1, Parts: []CompletedPart{{Number: 9, ETag: "x"}}}, ErrInvalidPart},
			"ETag":      {CompleteRequest{Size: -1, Parts: []CompletedPart{{Number: 1, ETag: "x"}}}, ErrInvalidPart},
			"checksum":  {CompleteRequest{Size: -1, Parts: []CompletedPart{{Number: 1, ETag: one.ETag, Checksum: "x"}}}, ErrInvalidPart},
			"sum": {CompleteRequest{Size: -1, Parts: named(one), Checksum: func(Upload, []Part) (*Checksum, error) {
				return nil, wrong
			}}, wrong},
		} {
			if err := complete(test.c); !errors.Is(err, test.want) {
				t.Errorf("%s: %v, want %v", name, err, test.want)
			}
		}
		mustBe(t, complete(CompleteRequest{Size: 5, Parts: named(one, three)}), errs.Invalid)
		f.put(b, "k", "other")
		mustBe(t, complete(CompleteRequest{Size: 6, Parts: named(one, three), Conditions: Conditions{IfNoneMatch: "*"}}), errs.PreconditionFailed)
		must(t, complete(CompleteRequest{Size: 6, Parts: named(one, three)}))
		if f.read(b, "k") != "abcefg" {
			t.Error("other bytes")
		}
		if err := complete(CompleteRequest{Size: -1, Parts: named(one)}); !errors.Is(err, ErrNoUpload) {
			t.Errorf("again: %v", err)
		}
	})
}

func TestUploadLists(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		var ids []string
		for _, key := range []string{"a", "a", "a/b", "b"} {
			u, err := f.uploads.Create(t.Context(), b, PutRequest{Key: key})
			must(t, err)
			ids = append(ids, u.ID)
		}
		var seen []string
		key, after := "", ""
		for more := true; more; {
			p, err := f.uploads.List(t.Context(), b, UploadsRequest{ListRequest{Prefix: "a", After: key, Limit: 2}, after})
			must(t, err)
			for _, u := range p.Uploads {
				seen = append(seen, u.ID)
				key, after = u.Key, u.ID
			}
			more = p.Truncated
		}
		if !slices.Equal(seen, ids[:3]) {
			t.Errorf("listed %v, want %v", seen, ids[:3])
		}
		skipped, err := f.uploads.List(t.Context(), b, UploadsRequest{ListRequest{After: "a", Limit: 10}, ""})
		must(t, err)
		if len(skipped.Uploads) != 2 {
			t.Errorf("%d uploads after those of a", len(skipped.Uploads))
		}
		u, err := f.uploads.Get(t.Context(), b, "b", ids[3])
		must(t, err)
		for n := 1; n <= 5; n++ {
			f.part(b, u, n, "abc")
		}
		f.part(b, u, 2, "replaced")
		p, err := f.uploads.Parts(t.Context(), b, PartsRequest{Key: "b", UploadID: u.ID, After: 1, Limit: 3})
		must(t, err)
		if len(p.Parts) != 3 || p.Parts[0].Number != 2 || p.Parts[0].Size != 8 || !p.Truncated {
			t.Errorf("parts %+v", p)
		}
		must(t, f.uploads.Abort(t.Context(), b, "b", u.ID))
		for _, err := range []error{
			f.uploads.Abort(t.Context(), b, "b", u.ID),
			f.uploads.Abort(t.Context(), b, "a", ids[3]),
			f.uploads.Abort(t.Context(), b, "a", "\xff"),
		} {
			if !errors.Is(err, ErrNoUpload) {
				t.Errorf("%v, want ErrNoUpload", err)
			}
		}
	})
}

func TestStaleUploadsAreAborted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		old, err := f.uploads.Create(t.Context(), b, PutRequest{Key: "old"})
		must(t, err)
		f.part(b, old, 1, "abc")
		f.clock.advance(7*24*time.Hour + time.Second)
		young, err := f.uploads.Create(t.Context(), b, PutRequest{Key: "young"})
		must(t, err)
		must(t, f.cleaner.AbortStaleUploads(t.Context()))
		if _, err := f.uploads.Get(t.Context(), b, "old", old.ID); !errors.Is(err, ErrNoUpload) {
			t.Errorf("old: %v", err)
		}
		_, err = f.uploads.Get(t.Context(), b, "young", young.ID)
		must(t, err)
		f.check()
	})
}

func TestCopyPart(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		src := f.put(b, "src", "0123456789")
		u, err := f.uploads.Create(t.Context(), b, PutRequest{Key: "k"})
		must(t, err)
		one, err := f.uploads.CopyPart(t.Context(), b, PartRequest{Key: "k", UploadID: u.ID, Number: 1}, Range{src, 2, 4})
		must(t, err)
		two, err := f.uploads.CopyPart(t.Context(), b, PartRequest{Key: "k", UploadID: u.ID, Number: 2}, Range{src, 8, -1})
		must(t, err)
		_, err = f.uploads.Complete(t.Context(), b, CompleteRequest{
			Key: "k", UploadID: u.ID, Size: 6, Parts: []CompletedPart{{Number: 1, ETag: one.ETag}, {Number: 2, ETag: two.ETag}},
		})
		must(t, err)
		if got := f.read(b, "k"); got != "234589" {
			t.Errorf("got %q", got)
		}
	})
}

// TestCompletionsAreDeletedAfterADay completes more uploads than one batch has.
func TestCompletionsAreDeletedAfterADay(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, Limits{Batch: 2})
		b := f.bucket(alice, "photos")
		left := func() (n int) {
			must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM object_completions`).Scan(&n))
			return n
		}
		for range 5 {
			f.multipart(b, "k", "x")
		}
		f.clock.advance(23 * time.Hour)
		f.multipart(b, "k", "x")
		must(t, f.cleaner.DeleteCompletions(t.Context()))
		if n := left(); n != 6 {
			t.Errorf("%d after 23 hours", n)
		}
		f.clock.advance(time.Hour)
		must(t, f.cleaner.DeleteCompletions(t.Context()))
		if n := left(); n != 1 {
			t.Errorf("%d after a day", n)
		}
	})
}

// TestMigrationFindsChecksums runs the statement that fills the kinds of checksums of older objects.
func TestMigrationFindsChecksums(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, Limits{})
		b := f.bucket(alice, "photos")
		want := map[string]string{"none": "", "full": "CRC32 FULL_OBJECT", "parts": "SHA256 COMPOSITE", "untyped": "SHA1"}
		for key, kind := range want {
			p := PutRequest{Key: key, Attributes: Attributes{Tags: Tags{{"checksum", "{}"}}}}
			if kind != "" {
				p.Checksum = func() (*Checksum, error) {
					c := checksumOf(kind)
					c.Value = "AAAA"
					return c, nil
				}
			}
			_, err := f.index.Put(t.Context(), b, p, strings.NewReader("x"), 1)
			must(t, err)
		}
		migration, err := os.ReadFile("../db/migrations/0016_object_completion.sql")
		must(t, err)
		var update strings.Builder
		for line := range strings.Lines(string(migration)) {
			if own, ok := strings.CutSuffix(line, " -- "+d.Dialect().String()+"\n"); ok {
				update.WriteString(own)
			}
		}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			if _, err := tx.Exec(`UPDATE objects SET checksum = NULL`); err != nil {
				return err
			}
			_, err := tx.Exec(strings.TrimSuffix(update.String(), ";"))
			return err
		}))
		page, err := f.index.List(t.Context(), b, ListRequest{Limit: 10})
		must(t, err)
		for _, o := range page.Objects {
			if got := o.Attributes.Checksum.kind(); got != want[o.Key] {
				t.Errorf("%s: %q, want %q", o.Key, got, want[o.Key])
			}
		}
	})
}
