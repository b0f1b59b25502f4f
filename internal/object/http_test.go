package object

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
)

type (
	objectsIn = struct {
		Bucket string `path:"bucket" example:"invoices"`
		Prefix string `query:"prefix" doc:"Only keys that begin with it" example:"2026/"`
		page.Paging
	}
	deleteIn = struct {
		Bucket string `path:"bucket" example:"invoices"`
		Key    string `query:"key" doc:"Key of one object" example:"2026/11/0042.pdf"`
		Prefix string `query:"prefix" doc:"All objects whose keys begin with it" example:"2026/"`
	}
	presignIn = PresignInput
	foldersIn = struct {
		Bucket string      `path:"bucket" example:"invoices"`
		Prefix string      `query:"prefix" doc:"What stands directly below it is returned" example:"2026/"`
		Limit  int         `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Maximum number of folders and objects"`
		Cursor page.Cursor `query:"cursor" doc:"Cursor of the next page" example:"WzE3NjMxOTMwMDAxMjMsInRocmRfMDFqY3EiXQ"`
	}
	analyticsIn = struct {
		Days int `query:"days" default:"180" minimum:"1" maximum:"3650" doc:"Number of days to return" example:"180"`
	}
)

func TestObjectsRoute(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		_, err := f.index.Put(t.Context(), b, PutRequest{Key: "a/1", ContentType: "text/plain"}, strings.NewReader("abc"), 3)
		must(t, err)
		f.put(b, "a/2", "")
		f.put(b, "b", "")
		list, err := f.http.Objects(as(alice), &objectsIn{Bucket: "photos", Prefix: "a/", Paging: page.Paging{Limit: 1}})
		must(t, err)
		next := list.Next
		list.Next = ""
		want := `{"objects":[{"bucket_name":"photos","key":"a/1","size":3,"etag":"900150983cd24fb0d6963f7d28e17f72",` +
			`"content_type":"text/plain","last_modified":"2026-11-15T08:30:00.000Z"}],"total":2,"prefix":"a/","limit":1,"offset":0}`
		if got := encoded(t, list); got != want {
			t.Errorf("got %s", got)
		}
		list, err = f.http.Objects(as(alice), &objectsIn{Bucket: "photos", Prefix: "a/", Paging: page.Paging{Limit: 1, Cursor: next}})
		must(t, err)
		want = `{"objects":[{"bucket_name":"photos","key":"a/2","size":0,"etag":"d41d8cd98f00b204e9800998ecf8427e",` +
			`"last_modified":"2026-11-15T08:30:00.000Z"}],"total":2,"prefix":"a/","limit":1,"offset":0}`
		if got := encoded(t, list); got != want {
			t.Errorf("by cursor %s", got)
		}
		list, err = f.http.Objects(as(alice), &objectsIn{Bucket: "photos", Paging: page.Paging{Limit: 0, Offset: 7}})
		must(t, err)
		if got := encoded(t, list); got != `{"objects":[],"total":3,"prefix":"","limit":0,"offset":7}` {
			t.Errorf("nothing: %s", got)
		}
		_, err = f.http.Objects(as(alice), &objectsIn{Bucket: "photos", Paging: page.Paging{Limit: 1, Cursor: "!"}})
		mustBe(t, err, errs.Invalid)
	})
}

func TestDeleteRoute(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		for i := range 20 {
			f.put(b, fmt.Sprintf("a/%02d", i), "x")
		}
		f.put(b, "b", "x")
		f.audit = nil
		for _, in := range []deleteIn{{}, {Key: "a", Prefix: "b"}} {
			in.Bucket = "photos"
			_, err := f.http.DeleteObjects(as(alice), &in)
			mustBe(t, err, errs.Invalid)
		}
		for _, step := range []struct {
			in   deleteIn
			want int64
		}{{deleteIn{Key: "a/00"}, 1}, {deleteIn{Key: "a/00"}, 0}, {deleteIn{Prefix: "a/"}, 19}, {deleteIn{Prefix: "a/"}, 0}, {deleteIn{Key: "b"}, 1}} {
			step.in.Bucket = "photos"
			got, err := f.http.DeleteObjects(as(alice), &step.in)
			must(t, err)
			if got.Count != step.want {
				t.Errorf("%+v: %d, want %d", step.in, got.Count, step.want)
			}
		}
		if diff := cmp.Diff([]string{"object.delete photos/a/00", "object.delete photos/a/*", "object.delete photos/b"}, f.audit); diff != "" {
			t.Errorf("audit -want +got:\n%s", diff)
		}
		f.check()
	})
}

func TestPresignRoute(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), small)
	f.bucket(alice, "photos")
	f.http.Presign = func(b *Bucket, key, method string, expires time.Duration) (string, error) {
		return fmt.Sprintf("https://s3/%s/%s?%s&%s", b.Name, key, method, expires), nil
	}
	for operation, method := range map[string]string{"download": "GET", "upload": "PUT"} {
		got, err := f.http.PresignURL(as(alice), &presignIn{Bucket: "photos", Key: "k", Operation: operation})
		must(t, err)
		if want := (Presigned{URL: "https://s3/photos/k?" + method + "&1h0m0s", Expiry: 3600}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	got, err := f.http.PresignURL(as(vera), &presignIn{Bucket: "photos", Key: "k", Expiry: 900})
	must(t, err)
	if want := (Presigned{URL: "https://s3/photos/k?GET&15m0s", Expiry: 900}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	_, err = f.http.PresignURL(as(vera), &presignIn{Bucket: "photos", Key: "k", Operation: "download"})
	must(t, err)
	_, err = f.http.PresignURL(as(vera), &presignIn{Bucket: "photos", Key: "k", Operation: "upload"})
	mustBe(t, err, errs.Forbidden)
	for key, valid := range map[string]bool{
		"": false, ".": false, "..": false, "./k": false, "a/../k": false, "a/.": false, "a/..": false,
		"...": true, ".k": true, "a/k..": true, "a//k": true,
	} {
		_, err = f.http.PresignURL(as(alice), &presignIn{Bucket: "photos", Key: key})
		if (err == nil) != valid || !valid && errs.KindOf(err) != errs.Invalid {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

func TestStatsRoute(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		stats := func() string {
			got, err := f.http.Stats(as(alice), &bucketIn{"photos"})
			must(t, err)
			return encoded(t, got)
		}
		if got := stats(); got != `{"bucket_name":"photos","object_count":0,"total_size":0}` {
			t.Errorf("empty: %s", got)
		}
		f.put(b, "a", "abc")
		f.put(b, "b", "de")
		const want = `{"bucket_name":"photos","object_count":2,"total_size":5,"last_event_at":"2026-11-15T08:30:00.000Z"}`
		if got := stats(); got != want {
			t.Errorf("got %s", got)
		}
		f.clock.advance(time.Hour)
		_, err := f.index.Delete(t.Context(), b, DeleteRequest{Keys: []string{"none"}})
		must(t, err)
		if got := stats(); got != want {
			t.Errorf("after nothing was deleted: %s", got)
		}
		byID, err := f.totals.ByBucket(t.Context(), "org_a")
		must(t, err)
		if u := byID[b.ID]; u.Objects != 2 || u.Bytes != 5 || u.LastEventAt == nil {
			t.Errorf("usage %+v", u)
		}
	})
}

func TestFoldersRoute(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		for _, key := range []string{"x/a/1", "x/a/2", "x/b", "x/c/1", "x/", "y"} {
			f.put(b, key, "abc")
		}
		view, err := f.http.Folders(as(alice), &foldersIn{Bucket: "photos", Prefix: "x/", Limit: 2})
		must(t, err)
		next := view.Next
		view.Next = ""
		if got := encoded(t, view); got != `{"prefix":"x/","folders":[{"prefix":"x/a/","object_count":2,"total_size":6}],`+
			`"objects":[{"key":"x/","size":3,"last_modified":"2026-11-15T08:30:00.000Z"}]}` {
			t.Errorf("got %s", got)
		}
		view, err = f.http.Folders(as(alice), &foldersIn{Bucket: "photos", Prefix: "x/", Limit: 2, Cursor: next})
		must(t, err)
		if got := encoded(t, view); got != `{"prefix":"x/","folders":[{"prefix":"x/c/","object_count":1,"total_size":3}],`+
			`"objects":[{"key":"x/b","size":3,"last_modified":"2026-11-15T08:30:00.000Z"}]}` {
			t.Errorf("then %s", got)
		}
	})
}

// TestForeignBucketsAreNotFound calls every route with a bucket of another organization and with one
// that does not exist.
func TestForeignBucketsAreNotFound(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), small)
	b := f.bucket(alice, "photos")
	f.put(b, "k", "x")
	for _, name := range []string{"photos", "missing"} {
		ctx := as(bob)
		all := make([]error, 8)
		_, all[0] = f.http.Objects(ctx, &objectsIn{Bucket: name})
		_, all[1] = f.http.DeleteObjects(ctx, &deleteIn{Bucket: name, Key: "k"})
		_, all[2] = f.http.PresignURL(ctx, &presignIn{Bucket: name, Key: "k"})
		_, all[3] = f.http.Stats(ctx, &bucketIn{name})
		_, all[4] = f.http.Config(ctx, &bucketIn{name})
		_, all[5] = f.http.UpdateConfig(ctx, &configIn{Bucket: name})
		_, all[6] = f.http.ResetConfig(ctx, &resetIn{Bucket: name})
		_, all[7] = f.http.Folders(ctx, &foldersIn{Bucket: name, Limit: 1})
		for i, err := range all {
			var e *errs.Error
			if !errors.As(err, &e) || e.Kind != errs.NotFound || e.Message != "bucket "+name+" not found" || !errors.Is(err, ErrNoBucket) {
				t.Errorf("route %d: %v", i, err)
			}
		}
	}
	if f.read(b, "k") != "x" {
		t.Error("the object is gone")
	}
}
