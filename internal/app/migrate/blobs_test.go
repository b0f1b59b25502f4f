package migrate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"steward/internal/app/blobs"
	"steward/internal/app/config"
	"steward/internal/blob"
	"steward/internal/blob/blobtest"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/db/move"
	"steward/internal/db/tablecopy"
	"steward/internal/errs"
	"steward/internal/id"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openDisk opens an empty store.
func openDisk(t *testing.T) *blob.Disk {
	t.Helper()
	store, err := blob.OpenDisk(t.TempDir())
	must(t, err)
	return store
}

// TestBytesFollowTheirRows has blobs that are needed, garbage, deleted meanwhile, and lost.
func TestBytesFollowTheirRows(t *testing.T) {
	needed, garbage, deleted, lost := id.Blob(time.Now()), id.Blob(time.Now()), id.Blob(time.Now()), id.Blob(time.Now())
	from, to := openDisk(t), openDisk(t)
	for _, blobID := range []string{needed, garbage} {
		must(t, from.Put(t.Context(), blobID, strings.NewReader("bytes"), 5))
	}
	b := &blobMove{job: &job{report: func(Event) {}}, copier: blob.Copier{From: from, To: to, Needed: func(_ context.Context, blobID string) (bool, error) {
		return blobID != deleted, nil
	}}}
	table := tablecopy.Table{Name: "blobs", Columns: []db.Column{{Name: "id"}, {Name: "garbage_at"}}}
	must(t, b.before(t.Context(), table, []tablecopy.Row{{needed, nil}, {garbage, int64(1)}, {deleted, nil}}))
	if got := blobtest.Read(t, to, needed); string(got) != "bytes" {
		t.Errorf("got %q", got)
	}
	if _, err := to.Size(t.Context(), garbage); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("garbage: %v", err)
	}
	if err := b.before(t.Context(), table, []tablecopy.Row{{needed, nil}, {lost, nil}}); err == nil || !strings.Contains(err.Error(), lost) {
		t.Errorf("lost: %v", err)
	}
	table.Name = "users"
	must(t, b.before(t.Context(), table, []tablecopy.Row{{lost, nil}}))
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	table.Name = "blobs"
	if err := b.before(interrupted, table, []tablecopy.Row{{needed, nil}}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// TestBytesThatAreNotWholeAreNotMoved has bytes of an object and of a part of an upload that were cut.
func TestBytesThatAreNotWholeAreNotMoved(t *testing.T) {
	whole, cut, deleted := id.Blob(time.Now()), id.Blob(time.Now()), id.Blob(time.Now())
	from := openDisk(t)
	must(t, from.Put(t.Context(), whole, strings.NewReader("bytes"), 5))
	must(t, from.Put(t.Context(), cut, strings.NewReader("byt"), 3))
	b := &blobMove{job: &job{report: func(Event) {}}, copier: blob.Copier{From: from, To: openDisk(t)}}
	objects := tablecopy.Table{Name: "objects", Columns: []db.Column{{Name: "bucket_id"}, {Name: "key"}, {Name: "blobs"}}}
	parts := tablecopy.Table{Name: "object_parts", Columns: []db.Column{{Name: "upload_id"}, {Name: "blob_id"}, {Name: "size"}}}
	object := func(key, blobID string) tablecopy.Row { return tablecopy.Row{"bucket", key, `[["` + blobID + `",5]]`} }
	must(t, b.before(t.Context(), objects, []tablecopy.Row{object("a", whole), object("b", deleted)}))
	must(t, b.before(t.Context(), parts, []tablecopy.Row{{"upload", whole, int64(5)}, {"upload", deleted, int64(5)}}))
	for says, err := range map[string]error{
		`the object "c" in the bucket bucket has 3 bytes instead of 5`: b.before(t.Context(), objects, []tablecopy.Row{object("a", whole), object("c", cut)}),
		"the upload upload has 3 bytes instead of 5":                   b.before(t.Context(), parts, []tablecopy.Row{{"upload", cut, int64(5)}}),
	} {
		if errs.KindOf(err) != errs.Conflict || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

// TestFirstStartNeedsTheStoreOfTheMove starts with several stores after a move.
func TestFirstStartNeedsTheStoreOfTheMove(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s3 := config.Config{BlobURL: &blob.S3Options{Endpoint: "https://h", Bucket: "b", Prefix: "p", Region: "eu"}}
		disk := config.Config{}
		forced := config.Config{Force: true}
		moved := func(to config.Config) {
			must(t, d.Write(t.Context(), func(tx *db.Tx) error {
				_, _, err := tx.Once("moved_store", blobs.Name(to))
				return err
			}))
		}
		must(t, CheckStore(t.Context(), d, disk))
		moved(s3)
		if store, err := move.Store(d.Read(t.Context())); err != nil || store != "s3://b/p?endpoint=https://h" {
			t.Fatalf("%q, %v", store, err)
		}
		for range 2 {
			err := CheckStore(t.Context(), d, disk)
			if errs.KindOf(err) != errs.Conflict || !strings.Contains(err.Error(), "start with --blob-url 's3://b/p?endpoint=https://h'") {
				t.Errorf("files: %v", err)
			}
		}
		must(t, CheckStore(t.Context(), d, s3))
		must(t, CheckStore(t.Context(), d, disk))
		moved(disk)
		if err := CheckStore(t.Context(), d, s3); errs.KindOf(err) != errs.Conflict || !strings.Contains(err.Error(), "without --blob-url") {
			t.Errorf("S3: %v", err)
		}
		must(t, CheckStore(t.Context(), d, disk))
		moved(s3)
		must(t, CheckStore(t.Context(), d, forced))
		must(t, CheckStore(t.Context(), d, disk))
	})
}

func TestSummaryNamesTheSettings(t *testing.T) {
	done := Done{Rows: 1234, Blobs: 56, Pause: 78 * time.Millisecond}
	for _, test := range []struct {
		request Request
		running bool
		want    string
	}{
		{
			Request{To: "postgres://u:SECRET@h/d", Blobs: BlobRequest{URL: "s3://b/p?endpoint=https://x:SECRET@h&region=eu", SecretKey: "SECRET"}},
			true,
			`Moved 1,234 rows and the bytes of 56 blobs. Nothing was written for 78ms.
The server responds with 503 now: stop it.
Start the server with the same settings but
  --database-url 'postgres://u:xxxxx@h/d'
  --blob-url 's3://b/p?endpoint=https://h&region=eu', with STEWARD_BLOB_ACCESS_KEY and STEWARD_BLOB_SECRET_KEY
The old rows are kept, and the bytes of objects in the old store.
`,
		},
		{
			Request{To: "sqlite:/d", Blobs: BlobRequest{URL: "disk"}},
			false,
			`Moved 1,234 rows and the bytes of 56 blobs. Nothing was written for 78ms.
Start the server with the same settings but
  without --database-url
  without --blob-url
The old rows are kept, and the bytes of objects in the old store.
`,
		},
		{
			Request{To: "postgres://h/d?password=SECRET"},
			false,
			`Moved 1,234 rows. Nothing was written for 78ms.
Start the server with the same settings but
  --database-url '(secret)'
The old rows are kept.
`,
		},
	} {
		if got := summary(test.request, done, test.running); got != test.want {
			t.Errorf("got %s", got)
		}
	}
}

func TestBlobURLThatIsNone(t *testing.T) {
	for _, url := range []string{"disks", "s3://SECRET", "s3://u:SECRET@b?endpoint=https://h", "https://SECRET"} {
		_, err := BlobRequest{URL: url}.config(config.Config{})
		if errs.KindOf(err) != errs.Invalid || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
