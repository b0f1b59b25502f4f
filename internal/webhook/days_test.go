package webhook

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/stamp"
)

// firstDay is where the days of these tests begin.
var firstDay = bucketOf(stamp.Of(newClock()), aDay)

const someDays = 4

// ledger is what a test has counted: by minute, from which everything else follows.
type ledger struct {
	store   *Store
	orgID   string
	minutes map[int64]Count
}

// add counts something in a minute, as a process with that part of the counters would.
func (c *ledger) add(ctx context.Context, shard, minute int64, n Count) error {
	sums := newTally(shard)
	for which, times := range []int64{n.Received, n.Delivered, n.Failed} {
		for range times {
			sums.count(c.orgID, stamp.Time(minute*aMinute*1_000_000), which)
		}
	}
	if err := c.store.DB.Write(ctx, sums.write); err != nil {
		return err
	}
	c.minutes[minute] = c.minutes[minute].plus(n)
	return nil
}

// in gives what should be counted in the buckets from one to before another.
func (c *ledger) in(unit, from, to int64) []Count {
	counts := make([]Count, to-from)
	for minute, n := range c.minutes {
		if bucket := minute * aMinute / unit; bucket >= from && bucket < to {
			counts[bucket-from] = counts[bucket-from].plus(n)
		}
	}
	return counts
}

// TestPackedCounts: whatever is counted by whom and packed when, series and sums are those of a simple model after every step. That a crash
// leaves nothing half packed is the transaction's doing.
func TestPackedCounts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		store, runs := &Store{DB: d}, 0
		rapid.Check(t, func(rt *rapid.T) {
			runs++
			c := &ledger{store: store, orgID: fmt.Sprintf("org_%d", runs), minutes: map[int64]Count{}}
			day := rapid.Int64Range(firstDay, firstDay+someDays-1)
			few := rapid.Int64Range(0, 3)
			rt.Repeat(map[string]func(*rapid.T){
				"add": func(rt *rapid.T) {
					minute := day.Draw(rt, "day")*24*60 + rapid.SampledFrom([]int64{0, 1, 59, 60, 700, 1439}).Draw(rt, "minute")
					n := Count{few.Draw(rt, "received"), few.Draw(rt, "delivered"), few.Draw(rt, "failed")}
					must(t, c.add(t.Context(), rapid.Int64Range(0, 2*shards-1).Draw(rt, "shard"), minute, n))
				},
				"pack": func(rt *rapid.T) { must(t, store.Pack(t.Context(), c.orgID, day.Draw(rt, "day"))) },
				"": func(rt *rapid.T) {
					unit := rapid.SampledFrom(units).Draw(rt, "unit")
					most := aDay / unit * someDays
					from := rapid.Int64Range(0, most-1).Draw(rt, "from")
					to := rapid.Int64Range(from+1, most).Draw(rt, "to")
					c.holds(rt, unit, firstDay*(aDay/unit)+from, firstDay*(aDay/unit)+to)
				},
			})
		})
	})
}

func (c *ledger) holds(t rapid.TB, unit, from, to int64) {
	want := c.in(unit, from, to)
	got, err := c.store.Counts(context.Background(), c.orgID, unit, from, to)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%d to %d by %d: %v, %v, want %v", from, to, unit, got, err, want)
	}
	var all Count
	for _, n := range want {
		all = all.plus(n)
	}
	sum, err := c.store.Sum(context.Background(), c.orgID, unit, from, to)
	if err != nil || sum != Summary(all) {
		t.Fatalf("%d to %d by %d: %v, %v, want %v", from, to, unit, sum, err, all)
	}
}

// TestPackingAtOnce: while some count and several pack the same day, sums never go down, as they would if a reading missed what is being
// packed, or after one that saw it twice; and in the end nothing is missing.
func TestPackingAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const writers, times = 4, 40
		store := &Store{DB: d}
		ctx, over := context.WithCancel(t.Context())
		var counting, others sync.WaitGroup
		for shard := range int64(writers) {
			counting.Go(func() {
				c := &ledger{store: store, orgID: "org_a", minutes: map[int64]Count{}}
				for i := range int64(times) {
					if err := c.add(t.Context(), shard, firstDay*24*60+i%3, Count{Received: 1}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 2 {
			others.Go(func() {
				for ctx.Err() == nil {
					if err := store.Pack(t.Context(), "org_a", firstDay); err != nil {
						t.Error(err)
					}
				}
			})
		}
		others.Go(func() {
			for before := int64(0); ctx.Err() == nil; {
				sum := seen(t, store, aMinute)
				if sum < before {
					t.Errorf("%d were counted, then %d", before, sum)
				}
				before = sum
			}
		})
		counting.Wait()
		over()
		others.Wait()
		for _, unit := range units {
			if n := seen(t, store, unit); n != writers*times {
				t.Errorf("%d of %d by %d", n, writers*times, unit)
			}
		}
	})
}

// seen sums up the first day of org_a by series.
func seen(t *testing.T, store *Store, unit int64) (sum int64) {
	perDay := aDay / unit
	counts, err := store.Counts(t.Context(), "org_a", unit, firstDay*perDay, (firstDay+1)*perDay)
	if err != nil {
		t.Error(err)
	}
	for _, c := range counts {
		sum += c.Received
	}
	return sum
}

// TestRetentionPacks: of days that are over one row is left, and a packed one for hours and minutes each; a late count is packed when the
// next day is.
func TestRetentionPacks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newHouse(t, d)
		r := &Retention{Store: h.store, Keep: time.Hour}
		a := &ledger{store: h.store, orgID: "org_a", minutes: map[int64]Count{}}
		b := &ledger{store: h.store, orgID: "org_b", minutes: map[int64]Count{}}
		for day := firstDay - 4; day <= firstDay; day++ {
			for shard := range int64(2) {
				must(t, a.add(t.Context(), shard, day*24*60+shard, Count{Received: 1, Delivered: 2}))
				must(t, b.add(t.Context(), shard, day*24*60+60, Count{Failed: 3}))
			}
		}
		wants := func(orgID string, rows, days int64) {
			t.Helper()
			var r, d int64
			must(t, h.db.Read(t.Context()).Row(`SELECT (SELECT count(*) FROM webhook_counts WHERE org_id = $1),
				(SELECT count(*) FROM webhook_days WHERE org_id = $1)`, orgID).Scan(&r, &d))
			if r != rows || d != days {
				t.Errorf("%s has %d rows and %d packed ones, want %d and %d", orgID, r, d, rows, days)
			}
		}
		must(t, r.Run(t.Context()))
		wants("org_a", 4+6, 4*2)
		must(t, a.add(t.Context(), 5, (firstDay-3)*24*60, Count{Received: 7}))
		must(t, r.Run(t.Context()))
		wants("org_a", 4+6+3, 4*2)
		h.clock.advance(24 * time.Hour)
		must(t, r.Run(t.Context()))
		wants("org_a", 5, 5*2)
		wants("org_b", 5, 5*2)
		for _, c := range []*ledger{a, b} {
			for _, unit := range units {
				c.holds(t, unit, (firstDay-5)*(aDay/unit), (firstDay+1)*(aDay/unit))
			}
		}
	})
}

// TestUnpackRefuses: what was not packed here is an error and never a panic.
func TestUnpackRefuses(t *testing.T) {
	whole := pack([]Count{{}, {Received: 300}, {}, {Delivered: 1, Failed: 2}})
	rapid.Check(t, func(rt *rapid.T) {
		bytes := rapid.SliceOf(rapid.Byte()).Draw(rt, "bytes")
		_ = unpack(bytes, 24, func(place int64, _ Count) {
			if place < 0 || place >= 24 {
				rt.Fatalf("place %d", place)
			}
		})
	})
	for name, bytes := range map[string][]byte{"cut": whole[:len(whole)-1], "more": append(whole, 1), "beyond the day": {24, 1, 1, 1}} {
		if unpack(bytes, 24, func(int64, Count) {}) == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
