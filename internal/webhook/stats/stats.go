// Package stats counts receipts, successful deliveries, failed ones and those that filters prevented over
// time, for each organization and each webhook. It owns the tables webhook_counts and webhook_counts_each.
//
// The transaction that writes a receipt or ends a delivery also adds to the counts for its minute,
// hour and day (Add). Store reads them: it sums them up over a period, or returns a series of buckets.
// An organization's counts stay forever, although retention removes its receipts and deliveries; a
// webhook's counts go when the webhook does (Remove).
package stats

import (
	"slices"
	"strconv"

	"steward/internal/encode"
	"steward/internal/period"
	"steward/internal/stamp"
)

// Count counts the events in a period.
type Count struct {
	Received  int64 `json:"received" example:"120"`
	Delivered int64 `json:"delivered" example:"117"`
	Failed    int64 `json:"failed" example:"3"`
	Filtered  int64 `json:"filtered" doc:"Deliveries that were not made because the destination's filter did not match" example:"12"`
}

// Analytics is a period's summary.
type Analytics struct {
	_ struct{} `goName:"WebhookAnalytics"`

	Period  period.Period `json:"period"`
	Summary Summary       `json:"summary"`
}

// Summary has a period's totals.
type Summary struct {
	_ struct{} `goName:"WebhookSummary"`

	Received  int64 `json:"total_received" example:"1200"`
	Delivered int64 `json:"total_delivered" example:"1170"`
	Failed    int64 `json:"total_failed" example:"30"`
	Filtered  int64 `json:"total_filtered" doc:"Deliveries that were not made because the destination's filter did not match" example:"120"`
}

// SDK returns the form that SDK clients read.
func (a Analytics) SDK() any { return map[string]any{"analytics": a} }

// Timeseries has the counts for each bucket in a period, even for empty ones.
type Timeseries struct {
	_ struct{} `goName:"WebhookTimeseries"`

	Period period.Period `json:"period"`
	Series []Bucket      `json:"series"`
}

// Bucket is one point in a series.
type Bucket struct {
	_ struct{} `goName:"WebhookCounts"`

	Timestamp stamp.Time `json:"timestamp" format:"date-time" example:"2026-11-15T08:30:00.123Z"`
	Count
}

// bucketSize estimates a bucket's length in JSON.
const bucketSize = 112

// AppendJSON implements encode.Appender.
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
		to = append(to, `,"filtered":`...)
		to = strconv.AppendInt(to, b.Filtered, 10)
		to = append(to, '}')
	}
	return append(to, "]}"...), nil
}

// SDK returns the form that SDK clients read.
func (t Timeseries) SDK() any { return map[string]any{"timeseries": t} }
