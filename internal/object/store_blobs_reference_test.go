package object

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// TestReferencesListWhatIsStored has more objects than one page, an upload under way, and an object
// that was replaced.
func TestReferencesListWhatIsStored(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		photos := f.bucket(alice, "photos")
		f.bucket(bob, "empty")
		want := map[string]int64{}
		add := func(o Object) {
			for _, b := range o.blobs {
				want[b.id] = b.size
			}
		}
		many := make([]Object, referencePage+5)
		var writers errgroup.Group
		writers.SetLimit(64)
		for i := range many {
			writers.Go(func() (err error) {
				many[i], err = f.index.Put(context.Background(), photos, PutRequest{Key: fmt.Sprint(i)}, strings.NewReader("content"), 7)
				return err
			})
		}
		must(t, writers.Wait())
		for _, o := range many {
			add(o)
		}
		replaced := f.put(photos, "again", "old")
		add(f.put(photos, "again", "newer"))
		add(f.multipart(f.bucket(bob, "more"), "k", "abc", "def", "g"))
		u, err := f.uploads.Create(context.Background(), photos, PutRequest{Key: "upload"})
		must(t, err)
		f.part(photos, u, 1, "part")
		got := map[string]int64{}
		var bytes, wantBytes int64
		must(t, f.blobs.References(t.Context(), func(refs []Reference) error {
			for _, r := range refs {
				got[r.ID] = r.Size
				bytes += r.Size
			}
			return nil
		}))
		for id, size := range want {
			if got[id] != size {
				t.Errorf("blob %s has %d bytes, want %d", id, got[id], size)
			}
		}
		if len(got) != len(want)+1 { // the part
			t.Errorf("%d blobs, want %d", len(got), len(want)+1)
		}
		wantBytes, err = f.blobs.ReferredBytes(t.Context())
		must(t, err)
		if bytes != wantBytes {
			t.Errorf("%d bytes, but the sum is %d", bytes, wantBytes)
		}
		held, err := f.totals.All(t.Context())
		must(t, err)
		if held.Objects != referencePage+7 || held.Bytes != bytes-int64(len("part")) {
			t.Errorf("the buckets hold %+v", held)
		}
		for _, test := range []struct {
			id   string
			want bool
		}{{replaced.blobs[0].id, false}, {"missing", false}, {anyKey(want), true}} {
			if referred, err := f.blobs.Referred(t.Context(), test.id); err != nil || referred != test.want {
				t.Errorf("%s is referred to: %t, %v; want %t", test.id, referred, err, test.want)
			}
		}
	})
}

func anyKey(m map[string]int64) string { return slices.Min(slices.Collect(maps.Keys(m))) }
