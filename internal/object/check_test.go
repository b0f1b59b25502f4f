package object

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"steward/internal/db"
)

// state is what the tables say, read without the code under test.
type state struct {
	objects map[rowKey]Object
	blocks  map[string][]block // by bucket, in order
	parts   map[string]bool    // blobs of parts
	live    map[string]bool    // blobs that are not garbage
}

func readState(f *fixture) state {
	f.t.Helper()
	q := f.db.Read(context.Background())
	s := state{objects: map[rowKey]Object{}, blocks: map[string][]block{}, parts: map[string]bool{}, live: map[string]bool{}}
	rows, err := db.Collect(q, func(r db.Row) (o Object, err error) {
		var blobs string
		if err := r.Scan(&o.BucketID, &o.Key, &o.Size, &o.Tier, &blobs); err != nil {
			return o, err
		}
		return o, json.Unmarshal([]byte(blobs), &o.blobs)
	}, `SELECT bucket_id, key, size, tier, blobs FROM objects`)
	must(f.t, err)
	for _, o := range rows {
		s.objects[rowKey{o.BucketID, o.Key}] = o
	}
	blocks, err := db.Collect(q, scanBlock, `SELECT bucket_id, first_key, objects, bytes FROM object_blocks ORDER BY bucket_id, first_key`)
	must(f.t, err)
	for _, b := range blocks {
		s.blocks[b.bucketID] = append(s.blocks[b.bucketID], b)
	}
	f.set(s.parts, `SELECT blob_id FROM object_parts`)
	f.set(s.live, `SELECT id FROM blobs WHERE garbage_at IS NULL`)
	return s
}

// set adds the texts of a statement to a set.
func (f *fixture) set(to map[string]bool, text string, args ...any) {
	f.t.Helper()
	all, err := db.Collect(f.db.Read(context.Background()), db.Value[string], text, args...)
	must(f.t, err)
	for _, one := range all {
		to[one] = true
	}
}

// check shows that rows, blocks, totals, usage and blobs agree.
func (f *fixture) check() {
	f.t.Helper()
	s := readState(f)
	existing := map[string]bool{}
	f.set(existing, `SELECT bucket_id FROM bucket_states`)
	s.checkBlocks(f, existing)
	f.checkSums(s, existing)
	referred := maps.Clone(s.parts)
	for _, o := range s.objects {
		size := int64(0)
		for _, ref := range o.blobs {
			referred[ref.id] = true
			size += ref.size
		}
		if size != o.Size {
			f.t.Errorf("%s has %d bytes in its blobs, want %d", o.Key, size, o.Size)
		}
	}
	if diff := cmp.Diff(referred, s.live); diff != "" {
		f.t.Fatalf("blobs -referred +rows:\n%s", diff)
	}
	for blobID := range referred {
		r, err := f.blobs.Store.Open(context.Background(), blobID, 0, -1)
		if err != nil {
			f.t.Fatalf("a referred blob cannot be opened: %v", err)
		}
		must(f.t, r.Close())
	}
}

func (s state) checkBlocks(f *fixture, existing map[string]bool) {
	f.t.Helper()
	limits := f.index.limits()
	for bucketID := range existing {
		blocks := s.blocks[bucketID]
		if len(blocks) == 0 || blocks[0].firstKey != "" {
			f.t.Fatalf("the first block of %s is missing: %+v", bucketID, blocks)
		}
		want := make([]block, len(blocks))
		for i, b := range blocks {
			want[i] = block{bucketID: bucketID, firstKey: b.firstKey}
		}
		for at, o := range s.objects {
			if at.bucketID != bucketID {
				continue
			}
			i := len(want) - 1
			for want[i].firstKey > at.key {
				i--
			}
			want[i].objects++
			want[i].bytes += o.Size
		}
		if diff := cmp.Diff(want, blocks, cmp.AllowUnexported(block{})); diff != "" {
			f.t.Fatalf("blocks -rows +blocks:\n%s", diff)
		}
		for i, b := range blocks {
			if b.objects > limits.MaxBlock || b.objects == 0 && i > 0 {
				f.t.Fatalf("block %+v", b)
			}
		}
	}
}

// sumRow is a row of a table of sums.
type sumRow struct {
	OrgID, BucketID, Tier string
	Objects, Bytes        int64
}

func (f *fixture) checkSums(s state, existing map[string]bool) {
	f.t.Helper()
	q := f.db.Read(context.Background())
	orgs := map[string]string{}
	_, err := db.Collect(q, func(r db.Row) (none struct{}, err error) {
		var id, org string
		err = r.Scan(&id, &org)
		orgs[id] = org
		return none, err
	}, `SELECT id, org_id FROM buckets`)
	must(f.t, err)
	totals := map[sumRow]sums{}
	byOrg := map[sumRow]sums{}
	for at, o := range s.objects {
		if !existing[at.bucketID] {
			continue // of a deleted bucket
		}
		bucket := sumRow{OrgID: orgs[at.bucketID], BucketID: at.bucketID, Tier: string(o.Tier)}
		org := sumRow{OrgID: bucket.OrgID, Tier: bucket.Tier}
		totals[bucket] = totals[bucket].plus(sums{1, o.Size})
		byOrg[org] = byOrg[org].plus(sums{1, o.Size})
	}
	f.compareSums("totals", totals, `SELECT org_id, bucket_id, tier, objects, bytes FROM bucket_totals`)
	f.compareSums("usage", byOrg, `SELECT org_id, '', tier, CAST(SUM(objects) AS BIGINT), CAST(SUM(bytes) AS BIGINT)
		FROM object_usage GROUP BY org_id, tier HAVING SUM(objects) <> 0 OR SUM(bytes) <> 0`)
}

func (f *fixture) compareSums(what string, want map[sumRow]sums, text string) {
	f.t.Helper()
	rows, err := db.Collect(f.db.Read(context.Background()), func(r db.Row) (s sumRow, err error) {
		return s, r.Scan(&s.OrgID, &s.BucketID, &s.Tier, &s.Objects, &s.Bytes)
	}, text)
	must(f.t, err)
	got := map[sumRow]sums{}
	for _, r := range rows {
		got[sumRow{OrgID: r.OrgID, BucketID: r.BucketID, Tier: r.Tier}] = sums{r.Objects, r.Bytes}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sums{})); diff != "" {
		f.t.Fatalf("%s -rows +sums:\n%s", what, diff)
	}
}

// checkNoOrphans shows that the blob store has the blobs that rows refer to, and no others.
func (f *fixture) checkNoOrphans() {
	f.t.Helper()
	s := readState(f)
	stored := map[string]bool{}
	for cursor := ""; ; {
		some, next, err := f.blobs.Store.List(context.Background(), cursor, 100)
		must(f.t, err)
		for _, b := range some {
			stored[b.ID] = true
		}
		if cursor = next; next == "" {
			break
		}
	}
	if diff := cmp.Diff(s.live, stored); diff != "" {
		f.t.Fatalf("blobs -rows +stored:\n%s", diff)
	}
}

// modelList is List over a sorted slice of keys, as simple as it can be.
func modelList(keys []string, r ListRequest) (objects, prefixes []string, truncated bool) {
	for _, key := range keys {
		if !strings.HasPrefix(key, r.Prefix) || key <= r.After {
			continue
		}
		prefix := ""
		if at := strings.Index(key[len(r.Prefix):], r.Delimiter); r.Delimiter != "" && at >= 0 {
			prefix = key[:len(r.Prefix)+at+len(r.Delimiter)]
			if prefix == r.After || slices.Contains(prefixes, prefix) {
				continue
			}
		}
		if len(objects)+len(prefixes) == r.Limit {
			return objects, prefixes, true
		}
		if prefix != "" {
			prefixes = append(prefixes, prefix)
			continue
		}
		objects = append(objects, key)
	}
	return objects, prefixes, false
}

func keysOf(objects []Object) (keys []string) {
	for _, o := range objects {
		keys = append(keys, o.Key)
	}
	return keys
}
