// Package stats counts what happens to webhooks: receipts, successful and failed deliveries of an
// organization, and of each of its webhooks, over time. It owns the tables webhook_counts and
// webhook_counts_each.
//
// The transaction that writes a receipt or ends a delivery also adds to the counts of its minute, hour and day (Add). Reading (Store) sums them
// up over a period, or returns them as a series of buckets. Counts of an organization are never
// removed, while retention removes receipts and deliveries; those of a webhook go with it (Remove).
package stats

import (
	"slices"
	"strconv"

	"steward/internal/encode"
	"steward/internal/period"
	"steward/internal/stamp"
)

// Count is the number of events in some time.
type Count struct {
	Received  int64 `json:"received" example:"120"`
	Delivered int64 `json:"delivered" example:"117"`
	Failed    int64 `json:"failed" example:"3"`
}

// Analytics is the summary of a period.
type Analytics struct {
	_ struct{} `goName:"WebhookAnalytics"`

	Period  period.Period `json:"period"`
	Summary Summary       `json:"summary"`
}

// Summary has the totals of a period.
type Summary struct {
	_ struct{} `goName:"WebhookSummary"`

	Received  int64 `json:"total_received" example:"1200"`
	Delivered int64 `json:"total_delivered" example:"1170"`
	Failed    int64 `json:"total_failed" example:"30"`
}

// SDK returns the form that SDK clients read.
func (a Analytics) SDK() any { return map[string]any{"analytics": a} }

// Timeseries has the counts of each bucket of a period, including those without events.
type Timeseries struct {
	_ struct{} `goName:"WebhookTimeseries"`

	Period period.Period `json:"period"`
	Series []Bucket      `json:"series"`
}

// Bucket is one point of a series.
type Bucket struct {
	_ struct{} `goName:"WebhookCounts"`

	Timestamp stamp.Time `json:"timestamp" format:"date-time" example:"2026-11-15T08:30:00.123Z"`
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
