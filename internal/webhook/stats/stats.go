// Package stats counts what happens to webhooks: receipts, successful and failed deliveries of an
// organization over time.
//
// It owns the table webhook_counts. The transaction that writes a receipt or ends a delivery also
// adds to the counts of its minute, hour and day (Counter). Reading (Store) sums them up over a
// period, or returns them as a series of buckets. Counts are never removed, while retention removes
// receipts and deliveries.
package stats

import (
	"slices"
	"strconv"

	"steward/internal/encode"
	"steward/internal/stamp"
)

// Count is the number of events in some time.
type Count struct {
	Received  int64 `json:"received"`
	Delivered int64 `json:"delivered"`
	Failed    int64 `json:"failed"`
}

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
	Start       stamp.Time  `json:"start" format:"date-time"`
	End         stamp.Time  `json:"end" format:"date-time"`
	Granularity Granularity `json:"granularity" enum:"minute,hour,day"`
}

// Analytics is the summary of a period.
type Analytics struct {
	Period  Period  `json:"period"`
	Summary Summary `json:"summary"`
}

// Summary has the totals of a period.
type Summary struct {
	Received  int64 `json:"total_received"`
	Delivered int64 `json:"total_delivered"`
	Failed    int64 `json:"total_failed"`
}

// SDK returns the form that SDK clients read.
func (a Analytics) SDK() any { return map[string]any{"analytics": a} }

// Timeseries has the counts of each bucket of a period, including those without events.
type Timeseries struct {
	Period Period   `json:"period"`
	Series []Bucket `json:"series"`
}

// Bucket is one point of a series.
type Bucket struct {
	Timestamp stamp.Time `json:"timestamp" format:"date-time"`
	Count
}

// bucketSize is about the length of a bucket in JSON.
const bucketSize = 96

// AppendJSON appends what encoding/json would write.
func (t Timeseries) AppendJSON(to []byte) ([]byte, error) {
	to = slices.Grow(to, (len(t.Series)+1)*bucketSize)
	to, err := encode.Value(append(to, `{"period":`...), t.Period)
	if err != nil {
		return to, err
	}
	to = append(to, `,"series":[`...)
	for i, b := range t.Series {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, `{"timestamp":"`...)
		to = b.Timestamp.Append(to)
		to = append(to, `","received":`...)
		to = strconv.AppendInt(to, b.Received, 10)
		to = append(to, `,"delivered":`...)
		to = strconv.AppendInt(to, b.Delivered, 10)
		to = append(to, `,"failed":`...)
		to = strconv.AppendInt(to, b.Failed, 10)
		to = append(to, '}')
	}
	return append(to, "]}"...), nil
}

// SDK returns the form that SDK clients read.
func (t Timeseries) SDK() any { return map[string]any{"timeseries": t} }
