package period

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"steward/internal/errs"
)

func now() time.Time { return time.Date(2026, 11, 15, 8, 30, 30, 0, time.UTC) }

func TestPeriods(t *testing.T) {
	type period struct{ Start, End string }
	for name, c := range map[string]struct {
		query       Query
		sum, series period
	}{
		"last 24 hours": {
			Query{Granularity: Hour},
			period{"2026-11-14T08:30:00.000Z", "2026-11-15T08:31:00.000Z"},
			period{"2026-11-14T08:00:00.000Z", "2026-11-15T09:00:00.000Z"},
		},
		"24 hours before an end": {
			Query{End: "2026-11-10T12:00:00Z", Granularity: Hour},
			period{"2026-11-09T12:00:00.000Z", "2026-11-10T12:00:00.000Z"},
			period{"2026-11-09T12:00:00.000Z", "2026-11-10T12:00:00.000Z"},
		},
		"until now": {
			Query{Start: "2026-11-15T08:30:15.5Z", Granularity: Day},
			period{"2026-11-15T08:30:00.000Z", "2026-11-15T08:31:00.000Z"},
			period{"2026-11-15T00:00:00.000Z", "2026-11-16T00:00:00.000Z"},
		},
		"offset": {
			Query{Start: "2026-11-10T12:00:00+02:00", End: "2026-11-10T12:00:00-02:00", Granularity: Minute},
			period{"2026-11-10T10:00:00.000Z", "2026-11-10T14:00:00.000Z"},
			period{"2026-11-10T10:00:00.000Z", "2026-11-10T14:00:00.000Z"},
		},
		"no offset": {
			Query{Start: "2026-11-10T12:00:00", End: "2026-11-10T12:00:01", Granularity: Minute},
			period{"2026-11-10T12:00:00.000Z", "2026-11-10T12:01:00.000Z"},
			period{"2026-11-10T12:00:00.000Z", "2026-11-10T12:01:00.000Z"},
		},
		"dates": {
			Query{Start: "2026-11-10", End: "2026-11-12", Granularity: Day},
			period{"2026-11-10T00:00:00.000Z", "2026-11-12T00:00:00.000Z"},
			period{"2026-11-10T00:00:00.000Z", "2026-11-12T00:00:00.000Z"},
		},
		"10,000 buckets": {
			Query{Start: "2026-11-01T00:00:00Z", End: "2026-11-07T22:40:00Z", Granularity: Minute},
			period{"2026-11-01T00:00:00.000Z", "2026-11-07T22:40:00.000Z"},
			period{"2026-11-01T00:00:00.000Z", "2026-11-07T22:40:00.000Z"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := c.query.Span(now())
			if err != nil {
				t.Fatal(err)
			}
			sum, series := s.Period(s.Minutes()), s.Period(s.Buckets())
			got := []period{{sum.Start.String(), sum.End.String()}, {series.Start.String(), series.End.String()}}
			if diff := cmp.Diff([]period{c.sum, c.series}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if sum.Granularity != c.query.Granularity {
				t.Errorf("granularity %s", sum.Granularity)
			}
		})
	}
}

func TestInvalidQueries(t *testing.T) {
	for name, c := range map[string]struct {
		query     Query
		locations []string
	}{
		"not times":        {Query{Start: "now", End: "2026-02-30", Granularity: Hour}, []string{"query.end", "query.start"}},
		"month only":       {Query{Start: "2026-11", Granularity: Hour}, []string{"query.start"}},
		"granularity":      {Query{Granularity: "week"}, []string{"query.granularity"}},
		"all":              {Query{Start: "x", End: "x"}, []string{"query.granularity", "query.end", "query.start"}},
		"end before start": {Query{Start: "2026-11-15", End: "2026-11-14", Granularity: Hour}, []string{"query.start"}},
		"nothing between":  {Query{Start: "2026-11-15", End: "2026-11-15T00:00:00Z", Granularity: Hour}, []string{"query.start"}},
		"in the future":    {Query{Start: "2027-11-15", Granularity: Hour}, []string{"query.start"}},
		"before 1970":      {Query{Start: "0001-01-01T00:00:00Z", Granularity: Day}, []string{"query.start"}},
		"10,001 buckets": {
			Query{Start: "2026-11-01T00:00:00Z", End: "2026-11-07T22:40:01Z", Granularity: Minute}, []string{"query.granularity"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.query.Span(now())
			var invalid *errs.Error
			if !errors.As(err, &invalid) || invalid.Kind != errs.Invalid {
				t.Fatalf("got %v", err)
			}
			var locations []string
			for _, f := range invalid.Faults {
				locations = append(locations, f.Location)
			}
			if diff := cmp.Diff(c.locations, locations); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestSplitCoversEachBucketOnce also checks that few buckets are read.
func TestSplitCoversEachBucketOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom(Units()).Draw(t, "unit")
		from := rapid.Int64Range(0, 5000).Draw(t, "from")
		to := from + rapid.Int64Range(1, maxBuckets).Draw(t, "buckets")
		covered := map[int64]int{}
		read := int64(0)
		for _, r := range (Range{unit, from, to}).Split() {
			n := r.Unit / unit
			for b := r.From * n; b < r.To*n; b++ {
				covered[b]++
			}
			read += max(0, r.To-r.From)
		}
		for b := from; b < to; b++ {
			if covered[b] != 1 {
				t.Fatalf("bucket %d is counted %d times", b, covered[b])
			}
		}
		if int64(len(covered)) != to-from {
			t.Fatalf("%d buckets of %d", len(covered), to-from)
		}
		if most := 2*(59+23) + (to-from)*unit/day + 1; unit < day && read > most {
			t.Fatalf("%d buckets are read, want at most %d", read, most)
		}
	})
}
