package stats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/period"
	"steward/internal/stamp"
)

func now() time.Time { return time.Date(2026, 11, 15, 8, 30, 30, 0, time.UTC) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// event is something that was counted.
type event struct {
	hook string
	at   stamp.Time
	n    Count
}

var errRolledBack = errors.New("rolled back")

// TestCountsMatchModel counts random events in several transactions, of which some are rolled back,
// and compares sums and series of random periods with the events.
func TestCountsMatchModel(t *testing.T) {
	first := stamp.Of(now()).Add(-10 * 24 * time.Hour)
	times := rapid.Custom(func(t *rapid.T) stamp.Time {
		at := first.Add(time.Duration(rapid.Int64Range(0, int64(10*24*time.Hour)).Draw(t, "offset")))
		unit := rapid.SampledFrom(append(period.Units(), 0)).Draw(t, "boundary")
		if unit != 0 {
			at = period.Range{Unit: unit}.Start(period.BucketOf(at, unit))
		}
		return at
	})
	few := rapid.Int64Range(0, 3)
	hooks := rapid.SampledFrom([]string{"wh_a", "wh_b"})
	events := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event {
		return event{hooks.Draw(t, "webhook"), times.Draw(t, "at"), Count{few.Draw(t, "received"), few.Draw(t, "delivered"), few.Draw(t, "failed"), few.Draw(t, "filtered")}}
	}), 0, 12)
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		store := &Store{DB: d, Now: now}
		runs := 0
		rapid.Check(t, func(t *rapid.T) {
			runs++
			orgID := fmt.Sprintf("org_%d", runs)
			var counted []event
			for range rapid.IntRange(1, 4).Draw(t, "transactions") {
				batch := events.Draw(t, "events")
				failure := rapid.SampledFrom([]error{nil, nil, errRolledBack}).Draw(t, "failure")
				writeEvents(t.Context(), t, d, orgID, batch, failure)
				if failure == nil {
					counted = append(counted, batch...)
				}
			}
			for range 4 {
				g := rapid.SampledFrom([]period.Granularity{period.Minute, period.Hour, period.Day}).Draw(t, "granularity")
				start, end := times.Draw(t, "start"), times.Draw(t, "end")
				if g == period.Minute {
					end = min(end, start.Add(6*24*time.Hour))
				}
				if start < end {
					q := Query{Query: period.Query{Start: start.Std().Format(time.RFC3339Nano), End: end.Std().Format(time.RFC3339Nano), Granularity: g}}
					q.WebhookID = rapid.SampledFrom([]string{"", "wh_a", "wh_b", "wh_unknown"}).Draw(t, "asked")
					compare(t.Context(), t, store, orgID, q, counted)
				}
			}
		})
	})
}

// writeEvents counts events in one transaction, which fails at the end if there is a failure.
func writeEvents(ctx context.Context, t rapid.TB, d *db.DB, orgID string, events []event, failure error) {
	err := d.Write(ctx, func(tx *db.Tx) error {
		for _, e := range events {
			if err := Add(tx, Events{orgID, e.hook, e.at, e.n}); err != nil {
				return err
			}
		}
		return failure
	})
	if !errors.Is(err, failure) {
		t.Fatal(err)
	}
}

// compare compares what the store returns for a query with what happened.
func compare(ctx context.Context, t rapid.TB, store *Store, orgID string, q Query, events []event) {
	if q.WebhookID != "" {
		events = slices.DeleteFunc(slices.Clone(events), func(e event) bool { return e.hook != q.WebhookID })
	}
	sums, err := store.Analytics(ctx, orgID, q)
	if err != nil {
		t.Fatal(err)
	}
	var want Summary
	for _, e := range events {
		if e.at >= sums.Period.Start && e.at < sums.Period.End {
			want.Received += e.n.Received
			want.Delivered += e.n.Delivered
			want.Failed += e.n.Failed
			want.Filtered += e.n.Filtered
		}
	}
	if diff := cmp.Diff(want, sums.Summary); diff != "" {
		t.Fatalf("%v: sums -want +got:\n%s", q, diff)
	}
	series, err := store.Timeseries(ctx, orgID, q)
	if err != nil {
		t.Fatal(err)
	}
	var buckets []Bucket
	length := map[period.Granularity]time.Duration{
		period.Minute: time.Minute, period.Hour: time.Hour, period.Day: 24 * time.Hour,
	}[q.Granularity]
	for at := series.Period.Start; at < series.Period.End; at = at.Add(length) {
		buckets = append(buckets, Bucket{Timestamp: at})
	}
	for _, e := range events {
		if i := int(e.at.Sub(series.Period.Start) / length); e.at >= series.Period.Start && i < len(buckets) {
			buckets[i].Received += e.n.Received
			buckets[i].Delivered += e.n.Delivered
			buckets[i].Failed += e.n.Failed
			buckets[i].Filtered += e.n.Filtered
		}
	}
	if diff := cmp.Diff(buckets, series.Series); diff != "" {
		t.Fatalf("%v: series -want +got:\n%s", q, diff)
	}
}

// TestConcurrentWriters adds to the same buckets.
func TestConcurrentWriters(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const writers, times = 6, 30
		var writing sync.WaitGroup
		for range writers {
			writing.Go(func() {
				for range times {
					err := d.Write(t.Context(), func(tx *db.Tx) error {
						return Add(tx, Events{"org_a", "wh_a", stamp.Of(now()), Count{Received: 1, Failed: 2}})
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		writing.Wait()
		store := &Store{DB: d, Now: now}
		for _, g := range []period.Granularity{period.Minute, period.Hour, period.Day} {
			sums, err := store.Analytics(t.Context(), "org_a", Query{Query: period.Query{Granularity: g}})
			must(t, err)
			if want := (Summary{Received: writers * times, Failed: 2 * writers * times}); sums.Summary != want {
				t.Errorf("%s: %+v, want %+v", g, sums.Summary, want)
			}
		}
	})
}

func TestCountsOfOtherOrganizationsAreNotIncluded(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		writeEvents(t.Context(), t, d, "org_a", []event{{"wh_a", stamp.Of(now()), Count{1, 1, 1, 0}}}, nil)
		store := &Store{DB: d, Now: now}
		for _, webhookID := range []string{"", "wh_a"} {
			compare(t.Context(), t, store, "org_b", Query{webhookID, period.Query{Granularity: period.Hour}}, nil)
		}
	})
}

func TestRemoveDeletesTheCountsOfAWebhookAlone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		at := stamp.Of(now())
		kept := []event{{"wh_b", at, Count{1, 2, 3, 0}}}
		gone := event{"wh_a", at, Count{1, 1, 1, 0}}
		writeEvents(t.Context(), t, d, "org_a", append(kept, gone), nil)
		for _, want := range []int64{2, 1, 0} { // one for each unit
			must(t, d.Write(t.Context(), func(tx *db.Tx) error {
				n, err := Remove(tx, "org_a", "wh_a", 2)
				if n != want {
					t.Errorf("removed %d, want %d", n, want)
				}
				return err
			}))
		}
		store := &Store{DB: d, Now: now}
		hour := period.Query{Granularity: period.Hour}
		compare(t.Context(), t, store, "org_a", Query{"wh_a", hour}, nil)
		compare(t.Context(), t, store, "org_a", Query{"wh_b", hour}, kept)
		compare(t.Context(), t, store, "org_a", Query{"", hour}, append(kept, gone))
	})
}
