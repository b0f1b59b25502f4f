package object

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// held returns what each organization must hold.
func (s *simulation) held() map[string]holding {
	all := map[string]holding{"org_a": {}, "org_b": {}}
	for _, b := range s.model {
		for _, o := range b.objects {
			all[b.OrgID].add(o.tier, sums{1, int64(len(o.content))})
		}
	}
	return all
}

// book adds the change since before to the day.
func (s *simulation) book(before map[string]holding) {
	day := dayOf(s.clock.now())
	for orgID, now := range s.held() {
		if s.changes[orgID] == nil {
			s.changes[orgID] = map[int64]holding{}
		}
		if s.changes[orgID][day] == nil {
			s.changes[orgID][day] = holding{}
		}
		for _, tier := range tiers {
			was := before[orgID][tier]
			s.changes[orgID][day].add(tier, now[tier].plus(sums{-was.objects, -was.bytes}))
		}
	}
}

// compare compares everything with the model.
func (s *simulation) compare() {
	s.check()
	for _, name := range slices.Sorted(maps.Keys(s.model)) {
		s.compareBucket(s.model[name])
	}
	for orgID := range s.changes {
		s.compareAnalytics(orgID)
	}
}

func (s *simulation) compareBucket(b *modelBucket) {
	sizes := map[string]int64{}
	bytes := int64(0)
	for key, o := range b.objects {
		sizes[key] = int64(len(o.content))
		bytes += sizes[key]
		stored, err := s.index.Get(s.context(), b.Bucket, key)
		must(s.t, err)
		if s.read(b.Bucket, key) != o.content || stored.Tier != o.tier {
			s.t.Fatalf("%s in %s has other bytes or another tier", key, b.Name)
		}
	}
	keys := slices.Sorted(maps.Keys(sizes))
	u, err := s.totals.Bucket(s.context(), b.Bucket)
	must(s.t, err)
	if u.Objects != int64(len(keys)) || u.Bytes != bytes {
		s.t.Fatalf("usage of %s %+v, want %d objects with %d bytes", b.Name, u, len(keys), bytes)
	}
	prefix := rapid.SampledFrom([]string{"", "", "a", "a/", "a/b/", "0", "ä", "ä/", "b"}).Draw(s.t, "listed prefix")
	s.compareLists(b.Bucket, keys, ListRequest{
		Prefix: prefix, Delimiter: rapid.SampledFrom([]string{"", "/", "0"}).Draw(s.t, "delimiter"),
		Limit: rapid.SampledFrom([]int{1, 4, 1000}).Draw(s.t, "limit"),
	})
	s.compareFoldersOf(b.Bucket, sizes, prefix, 2)
	with := slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, prefix) })
	offset := rapid.Int64Range(0, int64(len(with))).Draw(s.t, "offset")
	s.comparePage(b.Bucket, with, prefix, window{offset, 5})
}

// sinceData returns the days from the first one on that ends with an object. Days before it are there if
// all that they had was deleted again, perhaps by another request at the same time.
func sinceData(days []DayAnalytics) []DayAnalytics {
	i := slices.IndexFunc(days, func(d DayAnalytics) bool { return d.ObjectCount > 0 })
	if i < 0 {
		return nil
	}
	return days[i:]
}

func (s *simulation) compareAnalytics(orgID string) {
	const days = 3
	got, err := s.totals.Analytics(s.context(), orgID, days)
	must(s.t, err)
	today := dayOf(s.clock.now())
	first := today + 1
	for day, byTier := range s.changes[orgID] {
		for _, c := range byTier {
			if c != (sums{}) {
				first = min(first, day)
			}
		}
	}
	held := holding{}
	want := []DayAnalytics{}
	for day := first; day <= today; day++ {
		for tier, c := range s.changes[orgID][day] {
			held.add(tier, c)
		}
		if day <= today-days {
			continue
		}
		all := held.total()
		want = append(want, DayAnalytics{
			Date:        time.Unix(day*86400, 0).UTC().Format(time.DateOnly),
			ObjectCount: all.objects, TotalSize: all.bytes, Cost: held.cost(DefaultPrices()),
		})
	}
	if diff := cmp.Diff(sinceData(want), sinceData(got.Daily)); diff != "" {
		s.t.Fatalf("daily of %s -want +got:\n%s", orgID, diff)
	}
	all := s.held()[orgID]
	if diff := cmp.Diff(all.summary(DefaultPrices()), got.Summary); diff != "" {
		s.t.Fatalf("summary of %s -want +got:\n%s", orgID, diff)
	}
}

// cleanUp shows that workers remove all that nothing refers to, and nothing else.
func (s *simulation) cleanUp() {
	s.clock.advance(8 * 24 * time.Hour)
	for _, do := range []func(context.Context) error{
		s.cleaner.Purge, s.cleaner.AbortStaleUploads, s.cleaner.DeleteCompletions, s.cleaner.Sweep,
	} {
		must(s.t, do(s.context()))
	}
	s.clock.advance(time.Hour)
	must(s.t, s.cleaner.CollectGarbage(s.context()))
	s.compare()
	s.checkNoOrphans()
	left := map[string]bool{}
	s.set(left, `SELECT bucket_id FROM objects WHERE bucket_id NOT IN (SELECT id FROM buckets)
		UNION SELECT bucket_id FROM object_blocks WHERE bucket_id NOT IN (SELECT id FROM buckets)
		UNION SELECT bucket_id FROM bucket_purges UNION SELECT bucket_id FROM object_uploads UNION SELECT bucket_id FROM object_completions
		UNION SELECT id FROM blobs WHERE garbage_at IS NOT NULL`)
	if len(left) > 0 {
		s.t.Fatalf("left: %v", left)
	}
}
