package stats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/stamp"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// event is something that was counted.
type event struct {
	at stamp.Time
	n  Count
}

var errRolledBack = errors.New("rolled back")

// TestCountsMatchModel counts random events in several transactions, of which some are rolled back,
// and compares sums and series of random periods with the events.
func TestCountsMatchModel(t *testing.T) {
	first := stamp.Of(now()).Add(-10 * 24 * time.Hour)
	times := rapid.Custom(func(t *rapid.T) stamp.Time {
		at := first.Add(time.Duration(rapid.Int64Range(0, int64(10*24*time.Hour)).Draw(t, "offset")))
		unit := rapid.SampledFrom([]int64{0, minute, hour, day}).Draw(t, "boundary")
		if unit != 0 {
			at = startOf(bucketOf(at, unit), unit)
		}
		return at
	})
	few := rapid.Int64Range(0, 3)
	events := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event {
		return event{times.Draw(t, "at"), Count{few.Draw(t, "received"), few.Draw(t, "delivered"), few.Draw(t, "failed")}}
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
				g := rapid.SampledFrom([]Granularity{Minute, Hour, Day}).Draw(t, "granularity")
				start, end := times.Draw(t, "start"), times.Draw(t, "end")
				if g == Minute {
					end = min(end, start.Add(6*24*time.Hour))
				}
				if start < end {
					q := Query{start.Std().Format(time.RFC3339Nano), end.Std().Format(time.RFC3339Nano), g}
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
			if err := Add(tx, orgID, e.at, e.n); err != nil {
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
	length := time.Duration(unitOf[q.Granularity]) * time.Second
	for at := series.Period.Start; at < series.Period.End; at = at.Add(length) {
		buckets = append(buckets, Bucket{Timestamp: at})
	}
	for _, e := range events {
		if i := int(e.at.Sub(series.Period.Start) / length); e.at >= series.Period.Start && i < len(buckets) {
			buckets[i].Received += e.n.Received
			buckets[i].Delivered += e.n.Delivered
			buckets[i].Failed += e.n.Failed
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
						return Add(tx, "org_a", stamp.Of(now()), Count{Received: 1, Failed: 2})
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		writing.Wait()
		store := &Store{DB: d, Now: now}
		for _, g := range []Granularity{Minute, Hour, Day} {
			sums, err := store.Analytics(t.Context(), "org_a", Query{Granularity: g})
			must(t, err)
			if want := (Summary{Received: writers * times, Failed: 2 * writers * times}); sums.Summary != want {
				t.Errorf("%s: %+v, want %+v", g, sums.Summary, want)
			}
		}
	})
}

func TestCountsOfOtherOrganizationsAreNotIncluded(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		writeEvents(t.Context(), t, d, "org_a", []event{{stamp.Of(now()), Count{1, 1, 1}}}, nil)
		store := &Store{DB: d, Now: now}
		compare(t.Context(), t, store, "org_b", Query{Granularity: Hour}, nil)
	})
}
