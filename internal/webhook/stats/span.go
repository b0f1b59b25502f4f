package stats

import (
	"time"

	"steward/internal/errs"
	"steward/internal/stamp"
)

// maxBuckets is how many buckets a period may have.
const maxBuckets = 10_000

// The lengths of buckets in seconds.
const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
)

// units are the lengths that are counted, each a multiple of the one before.
var units = []int64{minute, hour, day}

var unitOf = map[Granularity]int64{Minute: minute, Hour: hour, Day: day}

// bucketOf returns the number of the bucket that contains a time.
func bucketOf(at stamp.Time, unit int64) int64 { return int64(at) / (unit * 1_000_000) }

// startOf returns the time at which a bucket begins.
func startOf(bucket, unit int64) stamp.Time { return stamp.Time(bucket * unit * 1_000_000) }

// Query has the query parameters of the analytics routes.
type Query struct {
	Start       string      `query:"start" pattern:"^\\d{4}-\\d\\d-\\d\\d" patternDescription:"a time or a date" doc:"Time or date, in UTC unless it has an offset. Default: 24 hours before the end"`
	End         string      `query:"end" pattern:"^\\d{4}-\\d\\d-\\d\\d" patternDescription:"a time or a date" doc:"Time or date, in UTC unless it has an offset. Default: now"`
	Granularity Granularity `query:"granularity" enum:"minute,hour,day" default:"hour"`
}

// Span is the time that a Query asks for.
type Span struct {
	start, end  stamp.Time
	granularity Granularity
}

// Span validates the query. It returns Invalid if a parameter is not of its form, the end is not
// after the start, or there are more than 10,000 buckets between them.
func (q Query) Span(now time.Time) (Span, error) {
	var faults errs.Faults
	unit, ok := unitOf[q.Granularity]
	faults.Check(ok, "query.granularity", "expected minute, hour or day")
	s := Span{granularity: q.Granularity, end: stamp.Of(now)}
	if q.End != "" {
		s.end = parseTime(&faults, "query.end", q.End)
	}
	s.start = s.end.Add(-24 * time.Hour)
	if q.Start != "" {
		s.start = parseTime(&faults, "query.start", q.Start)
	}
	if err := faults.Err(); err != nil {
		return Span{}, err
	}
	if s.start >= s.end || s.start < 0 {
		return Span{}, errs.InvalidField("query.start", "expected a time before the end, after 1970")
	}
	if r := s.buckets(unit); r.to-r.from > maxBuckets {
		return Span{}, errs.InvalidField("query.granularity", "expected a period of at most %d buckets", maxBuckets)
	}
	return s, nil
}

// parseTime parses a time, in UTC unless it has an offset, or a date, which is its beginning.
func parseTime(faults *errs.Faults, location, text string) stamp.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return stamp.Of(at)
		}
	}
	faults.Add(location, "expected an RFC 3339 time such as 2026-11-15T08:30:00Z, or a date such as 2026-11-15")
	return 0
}

// buckets returns the buckets of a unit that the span touches.
func (s Span) buckets(unit int64) bucketRange {
	return bucketRange{unit: unit, from: bucketOf(s.start, unit), to: bucketOf(s.end-1, unit) + 1}
}

// period returns the time of some buckets.
func (s Span) period(r bucketRange) Period {
	return Period{Start: startOf(r.from, r.unit), End: startOf(r.to, r.unit), Granularity: s.granularity}
}

// bucketRange is a range of buckets of one unit, from one to before another.
type bucketRange struct{ unit, from, to int64 }

// split covers a range with as few buckets as possible: whole days, whole hours before and after
// them, then minutes. Since each event is counted in all units, the sum is the same.
func (r bucketRange) split() []bucketRange {
	var all []bucketRange
	for _, longer := range units {
		if longer <= r.unit {
			continue
		}
		n := longer / r.unit
		first, last := (r.from+n-1)/n, r.to/n
		if first >= last {
			break
		}
		all = append(all, bucketRange{r.unit, r.from, first * n}, bucketRange{r.unit, last * n, r.to})
		r = bucketRange{longer, first, last}
	}
	return append(all, r)
}
