package object

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/stamp"
)

const analyticsDay = 24 * time.Hour

func TestAnalytics(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		f.totals.Prices = map[Tier]float64{Standard: 4e6, InfrequentAccess: 1e6} // of which a byte costs 0.004 and 0.001
		got, err := f.http.Analytics(as(alice), &analyticsIn{5})
		must(t, err)
		if text := encoded(t, got); text != `{"summary":{"total_object_count":0,"total_size":0,"estimated_monthly_cost":0,`+
			`"cost_per_gb_month":4000000},"buckets":[],"daily":[],"days":5,"priced":true}` {
			t.Errorf("nothing: %s", text)
		}
		one := f.bucket(alice, "one")
		two := f.bucket(alice, "two")
		f.put(f.bucket(bob, "three"), "k", "not of this organization")
		put := func(b *Bucket, key string, size int, tier Tier) {
			_, err := f.index.Put(t.Context(), b, PutRequest{Key: key, Tier: tier}, strings.NewReader(strings.Repeat("x", size)), -1)
			must(t, err)
		}
		put(one, "a", 100, Standard) // on the 15th
		f.clock.advance(2 * analyticsDay)
		put(one, "a", 50, InfrequentAccess) // on the 17th
		put(two, "b", 10, Standard)
		at := stamp.Of(f.clock.now())
		f.clock.advance(analyticsDay)
		got, err = f.http.Analytics(as(alice), &analyticsIn{180})
		must(t, err)
		want := Analytics{
			Summary: Summary{ObjectCount: 2, TotalSize: 60, MonthlyCost: 0.09, CostPerGB: 0.09 / 60 * 1e9},
			Buckets: []BucketAnalytics{{"one", 1, 50, &at, 0.05}, {"two", 1, 10, &at, 0.04}},
			Daily: []DayAnalytics{
				day("2026-11-15", 1, 100, 0.4), day("2026-11-16", 1, 100, 0.4), day("2026-11-17", 2, 60, 0.09), day("2026-11-18", 2, 60, 0.09),
			},
			Days: 180, Priced: true,
		}
		near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 })
		if diff := cmp.Diff(want, got, near); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		must(t, f.deleteBucket(alice, "one", false))
		got, err = f.http.Analytics(as(alice), &analyticsIn{2})
		must(t, err)
		if diff := cmp.Diff([]DayAnalytics{day("2026-11-17", 2, 60, 0.09), day("2026-11-18", 1, 10, 0.04)}, got.Daily, near); diff != "" {
			t.Errorf("after a bucket was deleted -want +got:\n%s", diff)
		}
		f.clock.advance(30 * analyticsDay)
		got, err = f.http.Analytics(as(alice), &analyticsIn{3})
		must(t, err)
		if len(got.Daily) != 3 || got.Daily[0] != day("2026-12-16", 1, 10, 0.04) {
			t.Errorf("carried forward: %+v", got.Daily)
		}
	})
}

func TestDefaultPrices(t *testing.T) {
	held := holding{Standard: {1, 1e9}, InfrequentAccess: {1, 1e9}, Archive: {1, 2e9}}
	s := held.summary((&Totals{}).prices())
	near := func(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 }
	if !near(s.MonthlyCost, 0.038) || !near(s.CostPerGB, 0.0095) {
		t.Errorf("got %+v", s)
	}
}

func TestCostsHaveTwelveDigits(t *testing.T) {
	digits := func(cost float64) int {
		text := strconv.FormatFloat(cost, 'e', -1, 64)
		mantissa, _, _ := strings.Cut(text, "e")
		return len(strings.Replace(mantissa, ".", "", 1))
	}
	prices := (&Totals{}).prices()
	for bytes := int64(1); bytes < 1e18; bytes = bytes*7 + 3 {
		held := holding{Standard: {1, bytes}, InfrequentAccess: {1, bytes / 3}, Archive: {1, bytes / 7}}
		s := held.summary(prices)
		for _, cost := range []float64{s.MonthlyCost, s.CostPerGB, held.cost(prices)} {
			if digits(cost) > 12 {
				t.Errorf("%d bytes cost %v", bytes, cost)
			}
		}
	}
	if got := (holding{Standard: {1, 1e9}, InfrequentAccess: {1, 1e9}, Archive: {1, 2e9}}).summary(prices).MonthlyCost; got != 0.038 {
		t.Errorf("got %v, want 0.038", got)
	}
}

// TestDailyHasTheDayOnWhichEverythingWasDeleted deletes all objects on the day on which they were
// written, and one day later.
func TestDailyHasTheDayOnWhichEverythingWasDeleted(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		want := func(days ...DayAnalytics) {
			t.Helper()
			got, err := f.http.Analytics(as(alice), &analyticsIn{180})
			must(t, err)
			if diff := cmp.Diff(days, got.Daily); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		}
		remove := func() {
			_, err := f.index.Delete(t.Context(), b, DeleteRequest{Keys: []string{"k"}})
			must(t, err)
		}
		f.put(b, "k", "x")
		remove()
		want(DayAnalytics{Date: "2026-11-15"})
		f.clock.advance(analyticsDay)
		want(DayAnalytics{Date: "2026-11-15"}, DayAnalytics{Date: "2026-11-16"})
		f.put(b, "k", "x")
		f.clock.advance(analyticsDay)
		remove()
		must(t, f.deleteBucket(alice, "photos", false))
		held := DayAnalytics{Date: "2026-11-16", ObjectCount: 1, TotalSize: 1, Cost: 2e-11}
		want(DayAnalytics{Date: "2026-11-15"}, held, DayAnalytics{Date: "2026-11-17"})
		f.check()
	})
}

func day(date string, objects, size int64, cost float64) DayAnalytics {
	return DayAnalytics{Date: date, ObjectCount: objects, TotalSize: size, Cost: cost}
}
