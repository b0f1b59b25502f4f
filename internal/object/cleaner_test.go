package object

import (
	"io"
	"strings"
	"testing"
	"time"

	"steward/internal/blob/blobtest"
	"steward/internal/db"
	"steward/internal/db/dbtest"
)

func TestExpiry(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		kept := f.bucket(alice, "kept")
		for _, key := range listedKeys() {
			f.put(b, key, "old")
			f.put(kept, key, "old")
		}
		f.clock.advance(30 * time.Minute)
		f.put(b, "young", "x")
		f.put(b, listedKeys()[0], "written again")
		_, err := f.buckets.UpdateConfig(as(alice), b, patch(t, `{"ttl":3600}`), noMatch)
		must(t, err)
		f.clock.advance(30*time.Minute - time.Second)
		must(t, f.cleaner.Expire(t.Context()))
		count := func(b *Bucket) int64 {
			p, err := f.index.Page(t.Context(), b, "", 0, 0)
			must(t, err)
			return p.Total
		}
		if got := count(b); got != int64(len(listedKeys())+1) {
			t.Errorf("%d objects one second before", got)
		}
		f.clock.advance(time.Second)
		f.events = nil
		must(t, f.cleaner.Expire(t.Context()))
		if got := count(b); got != 2 || count(kept) != int64(len(listedKeys())) {
			t.Errorf("%d objects after, %d in the other bucket", got, count(kept))
		}
		if len(f.events) != len(listedKeys())-1 || f.events[0].Name != EventExpire {
			t.Errorf("%d events", len(f.events))
		}
		f.check()
	})
}

// TestExpiryGoesOnAfterAChangedBucket changes the ttl of a bucket, and deletes another one, after they
// were read.
func TestExpiryGoesOnAfterAChangedBucket(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		var all []*Bucket
		for _, name := range []string{"changed", "deleted", "expired"} {
			b := f.bucket(alice, name)
			f.put(b, "old", "x")
			b, err := f.buckets.UpdateConfig(as(alice), b, patch(t, `{"ttl":3600}`), noMatch)
			must(t, err)
			all = append(all, b)
		}
		f.clock.advance(time.Hour)
		f.cleaner.Now = func() time.Time { // called when the bucket is expired
			f.cleaner.Now = f.clock.now
			_, err := f.buckets.UpdateConfig(as(alice), all[0], patch(t, `{"ttl":7200}`), noMatch)
			must(t, err)
			must(t, f.deleteBucket(alice, "deleted", false))
			return f.clock.now()
		}
		must(t, f.cleaner.Expire(t.Context()))
		for i, want := range map[int]int64{0: 1, 2: 0} {
			p, err := f.index.Page(t.Context(), all[i], "", 0, 0)
			must(t, err)
			if p.Total != want {
				t.Errorf("%s has %d objects, want %d", all[i].Name, p.Total, want)
			}
		}
	})
}

// TestSweepSparesWritesUnderWay sweeps while bytes are being written, and after they were written and
// before a row refers to them.
func TestSweepSparesWritesUnderWay(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		slow := func() io.Reader {
			return io.MultiReader(strings.NewReader("abc"), readerFunc(func([]byte) (int, error) {
				f.clock.advance(11 * time.Hour)
				must(t, f.cleaner.Sweep(t.Context()))
				return 0, io.EOF
			}))
		}
		_, err := f.index.Put(t.Context(), b, PutRequest{Key: "k", Checksum: func() (*Checksum, error) {
			return nil, f.cleaner.Sweep(t.Context())
		}}, slow(), -1)
		must(t, err)
		u, err := f.uploads.Create(t.Context(), b, PutRequest{Key: "m"})
		must(t, err)
		_, err = f.uploads.PutPart(t.Context(), b, PartRequest{Key: "m", UploadID: u.ID, Number: 1}, slow(), -1)
		must(t, err)
		f.clock.advance(100 * time.Hour)
		must(t, f.cleaner.Sweep(t.Context()))
		if f.read(b, "k") != "abc" {
			t.Error("other bytes")
		}
		f.check()
	})
}

func TestGarbageIsKeptForReaders(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		old := f.put(b, "k", "old")
		f.put(b, "k", "new")
		f.clock.advance(9 * time.Minute)
		must(t, f.cleaner.CollectGarbage(t.Context()))
		r, err := f.blobs.Open(t.Context(), old, 0, -1)
		must(t, err)
		must(t, r.Close())
		f.clock.advance(time.Minute)
		must(t, f.cleaner.CollectGarbage(t.Context()))
		if _, err := f.blobs.Open(t.Context(), old, 0, -1); err == nil {
			t.Error("the old bytes are still there")
		}
		if ids := blobtest.IDs(t, f.blobs.Store); len(ids) != 1 || f.read(b, "k") != "new" {
			t.Errorf("%d blobs", len(ids))
		}
	})
}
