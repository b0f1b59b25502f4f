package webhook

import (
	"slices"
	"strconv"
	"time"

	"steward/internal/encode"
	"steward/internal/errs"
	"steward/internal/stamp"
)

// maxBuckets is the most that one answer may cover.
const maxBuckets = 10_000

// Granularity is the length of a bucket.
type Granularity string

// seconds of each granularity.
var seconds = map[Granularity]int64{"minute": aMinute, "hour": anHour, "day": aDay}

// Count is what happened in some time.
type Count struct {
	Received  int64 `json:"received"`
	Delivered int64 `json:"delivered"`
	Failed    int64 `json:"failed"`
}

func (c Count) plus(o Count) Count {
	return Count{Received: c.Received + o.Received, Delivered: c.Delivered + o.Delivered, Failed: c.Failed + o.Failed}
}

// Period is the time that an answer covers: whole buckets, from start to before end.
type Period struct {
	Start       stamp.Time  `json:"start" format:"date-time"`
	End         stamp.Time  `json:"end" format:"date-time"`
	Granularity Granularity `json:"granularity" enum:"minute,hour,day"`
}

// Analytics are the sums of a period.
type Analytics struct {
	Period  Period  `json:"period"`
	Summary Summary `json:"summary"`
}

// Summary are the totals of a period.
type Summary struct {
	Received  int64 `json:"total_received"`
	Delivered int64 `json:"total_delivered"`
	Failed    int64 `json:"total_failed"`
}

// SDK names the value, as these clients expect.
func (a Analytics) SDK() any { return map[string]any{"analytics": a} }

// Timeseries are the counts of each bucket of a period, zeros too.
type Timeseries struct {
	Period Period   `json:"period"`
	Series []Bucket `json:"series"`
}

// Bucket is one point of a series.
type Bucket struct {
	Timestamp stamp.Time `json:"timestamp" format:"date-time"`
	Count
}

// pointSize is about what a point of a series takes as JSON.
const pointSize = 96

// AppendJSON writes what encoding/json would, of up to maxBuckets points.
func (t Timeseries) AppendJSON(to []byte) ([]byte, error) {
	to = slices.Grow(to, (len(t.Series)+1)*pointSize)
	to, err := encode.Value(append(to, `{"period":`...), t.Period)
	to = append(to, `,"series":[`...)
	var at dateText
	for i, b := range t.Series {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(append(to, `{"timestamp":"`...), at.of(b.Timestamp)...)
		to = strconv.AppendInt(append(to, `","received":`...), b.Received, 10)
		to = strconv.AppendInt(append(to, `,"delivered":`...), b.Delivered, 10)
		to = strconv.AppendInt(append(to, `,"failed":`...), b.Failed, 10)
		to = append(to, '}')
	}
	return append(to, "]}"...), err
}

// dateText writes times one after the other; the date is worked out anew only when it is another.
type dateText struct {
	day  stamp.Time
	text []byte
}

func (d *dateText) of(at stamp.Time) []byte {
	const minute, day = stamp.Time(aMinute * 1_000_000), stamp.Time(aDay * 1_000_000)
	if d.text == nil || at/day != d.day || at < 0 || at%minute != 0 {
		d.day, d.text = at/day, at.Append(d.text[:0])
		return d.text
	}
	hours, minutes := at%day/minute/60, at%day/minute%60
	d.text[11], d.text[12] = '0'+byte(hours/10), '0'+byte(hours%10)
	d.text[14], d.text[15] = '0'+byte(minutes/10), '0'+byte(minutes%10)
	return d.text
}

// SDK names the value, as these clients expect.
func (t Timeseries) SDK() any { return namedSeries{t} }

type namedSeries struct{ t Timeseries }

func (n namedSeries) AppendJSON(to []byte) ([]byte, error) {
	to, err := n.t.AppendJSON(append(to, `{"timeseries":`...))
	return append(to, '}'), err
}

// span is a period in buckets.
type span struct {
	unit, from, to int64
	granularity    Granularity
}

// spanOf gives the buckets from start to end, by default the last 24 hours. Invalid when the end is not after the start or there are too
// many buckets.
func spanOf(start, end *stamp.Time, g Granularity, now time.Time) (span, error) {
	unit := seconds[g]
	last := stamp.Of(now)
	if end != nil {
		last = *end
	}
	first := last.Add(-24 * time.Hour)
	if start != nil {
		first = *start
	}
	if first >= last || first < 0 {
		return span{}, errs.Wrong("query.start", "expected a time before the end, after 1970")
	}
	s := span{unit: unit, from: bucketOf(first, unit), to: bucketOf(last-1, unit) + 1, granularity: g}
	if s.to-s.from > maxBuckets {
		return span{}, errs.Wrong("query.granularity", "expected a period of at most %d buckets", maxBuckets)
	}
	return s, nil
}

func (s span) at(bucket int64) stamp.Time { return stamp.Time(bucket * s.unit * 1_000_000) }

func (s span) period() Period {
	return Period{Start: s.at(s.from), End: s.at(s.to), Granularity: s.granularity}
}

func (s span) series(counts []Count) []Bucket {
	series := make([]Bucket, len(counts))
	for i, c := range counts {
		series[i] = Bucket{Timestamp: s.at(s.from + int64(i)), Count: c}
	}
	return series
}
