// Package period owns the periods of series: the query parameters that name one, the buckets of minutes,
// hours and days that it is divided into, and how responses show it.
package period

import (
	"time"

	"steward/internal/errs"
	"steward/internal/stamp"
)

// Granularity is the length of the buckets of a series.
type Granularity string

// The granularities.
const (
	Minute Granularity = "minute"
	Hour   Granularity = "hour"
	Day    Granularity = "day"
)

// Period is the time that was counted, from start to before end.
type Period struct {
	Start       stamp.Time  `json:"start" format:"date-time" example:"2026-11-15T00:00:00.000Z"`
	End         stamp.Time  `json:"end" format:"date-time" example:"2026-11-16T00:00:00.000Z"`
	Granularity Granularity `json:"granularity" enum:"minute,hour,day"`
}

// maxBuckets is how many buckets a period may have.
const maxBuckets = 10_000

// The lengths of buckets in seconds.
const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
)

// Units returns the lengths of buckets in seconds, each a multiple of the one before.
func Units() []int64 { return []int64{minute, hour, day} }

var unitOf = map[Granularity]int64{Minute: minute, Hour: hour, Day: day}

// BucketOf returns the number of the bucket that contains a time.
func BucketOf(at stamp.Time, unit int64) int64 { return int64(at) / (unit * 1_000_000) }

// startOf returns the time at which a bucket begins.
func startOf(bucket, unit int64) stamp.Time { return stamp.Time(bucket * unit * 1_000_000) }

// Query has the query parameters of the routes that count over a period.
type Query struct {
	Start       string      `query:"start" pattern:"^\\d{4}-\\d\\d-\\d\\d" patternDescription:"a time or a date" doc:"Time or date, in UTC unless it has an offset. Default: 24 hours before the end" example:"2026-11-15T00:00:00.000Z"`
	End         string      `query:"end" pattern:"^\\d{4}-\\d\\d-\\d\\d" patternDescription:"a time or a date" doc:"Time or date, in UTC unless it has an offset. Default: now" example:"2026-11-16T00:00:00.000Z"`
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
	if end := Bound(q.End).Parse(&faults, "query.end"); end != nil {
		s.end = *end
	}
	s.start = s.end.Add(-24 * time.Hour)
	if start := Bound(q.Start).Parse(&faults, "query.start"); start != nil {
		s.start = *start
	}
	if err := faults.Err(); err != nil {
		return Span{}, err
	}
	if s.start >= s.end || s.start < 0 {
		return Span{}, errs.InvalidField("query.start", "expected a time before the end, after 1970")
	}
	if s.buckets(unit).Len() > maxBuckets {
		return Span{}, errs.InvalidField("query.granularity", "expected a period of at most %d buckets", maxBuckets)
	}
	return s, nil
}

// buckets returns the buckets of a unit that the span touches.
func (s Span) buckets(unit int64) Range {
	return Range{Unit: unit, From: BucketOf(s.start, unit), To: BucketOf(s.end-1, unit) + 1}
}

// Buckets returns the buckets of the span's granularity that it touches.
func (s Span) Buckets() Range { return s.buckets(unitOf[s.granularity]) }

// Minutes returns the minutes that the span touches.
func (s Span) Minutes() Range { return s.buckets(minute) }

// Period returns the time of some buckets.
func (s Span) Period(r Range) Period {
	return Period{Start: r.Start(0), End: r.Start(r.Len()), Granularity: s.granularity}
}

// Range is a range of buckets of one unit, from one to before another.
type Range struct{ Unit, From, To int64 }

// Len returns the number of buckets.
func (r Range) Len() int64 { return r.To - r.From }

// Start returns the time at which the bucket with a number begins; the first one has number 0.
func (r Range) Start(n int64) stamp.Time { return startOf(r.From+n, r.Unit) }

// Split covers the range with as few buckets as possible: whole days, whole hours before and after
// them, then minutes. If each event is counted in all units, the sum is the same.
func (r Range) Split() []Range {
	var all []Range
	for _, longer := range Units() {
		if longer <= r.Unit {
			continue
		}
		n := longer / r.Unit
		first, last := (r.From+n-1)/n, r.To/n
		if first >= last {
			break
		}
		all = append(all, Range{r.Unit, r.From, first * n}, Range{r.Unit, last * n, r.To})
		r = Range{longer, first, last}
	}
	return append(all, r)
}
