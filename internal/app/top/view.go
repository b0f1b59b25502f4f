package top

import (
	"fmt"
	"strings"
	"time"

	"steward/internal/cli/output"
)

// View is a server's activity between two scrapes, and its state at the second.
type View struct {
	At        time.Time `json:"at"`
	Version   string    `json:"version"`
	Ingest    float64   `json:"ingest_per_second"`
	Refused   float64   `json:"ingest_refused_per_second"`
	Delivered float64   `json:"deliveries_per_second"`
	Failed    float64   `json:"failed_deliveries_per_second"`
	Queued    int64     `json:"queue_depth"`
	OldestDue float64   `json:"oldest_due_seconds"`
	Failing   int64     `json:"failing_destinations"`
	Requests  float64   `json:"requests_per_second"`
	Errors    float64   `json:"errors_per_second"` // 5xx
	// P50 and P99 are null if there was no request.
	P50           *float64       `json:"request_p50_seconds"`
	P99           *float64       `json:"request_p99_seconds"`
	Memory        int64          `json:"memory_bytes"`
	Organizations []Organization `json:"organizations"`
}

// newView returns the view for the time between two scrapes.
func newView(before, after scrape) View {
	seconds := after.at.Sub(before.at).Seconds()
	perSecond := func(before, after float64) float64 { return increase(before, after) / seconds }
	latency := after.latency.since(before.latency)
	return View{
		At: after.at.UTC(), Version: after.version,
		Ingest:    perSecond(before.accepted, after.accepted),
		Refused:   perSecond(before.refused, after.refused),
		Delivered: perSecond(before.succeeded, after.succeeded),
		Failed:    perSecond(before.failed, after.failed),
		Queued:    int64(after.queued), OldestDue: after.oldestDue, Failing: int64(after.failing),
		Requests: perSecond(before.requests, after.requests),
		Errors:   perSecond(before.errors, after.errors),
		P50:      quantileOf(latency, 0.5),
		P99:      quantileOf(latency, 0.99),
		Memory:   int64(after.memory), Organizations: heaviest(before, after),
	}
}

func quantileOf(b buckets, q float64) *float64 {
	value, ok := b.quantile(q)
	if !ok {
		return nil
	}
	return &value
}

// text returns the view for people.
func (v View) text(url string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Steward %s  %s  %s  memory %s\n\n", output.Clean(v.Version), url, v.At.Format(time.TimeOnly), output.ByteSize(v.Memory))
	fmt.Fprintf(&b, "Ingest      %10.1f/s   refused %.1f/s\n", v.Ingest, v.Refused)
	fmt.Fprintf(&b, "Deliveries  %10.1f/s   failed %.1f/s   queue %d   oldest due %s   failing destinations %d\n",
		v.Delivered, v.Failed, v.Queued, output.Duration(seconds(v.OldestDue)), v.Failing)
	fmt.Fprintf(&b, "Requests    %10.1f/s   errors %.1f/s   p50 %s   p99 %s\n", v.Requests, v.Errors, latencyText(v.P50), latencyText(v.P99))
	writeOrganizations(&b, v.Organizations)
	return b.String()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func latencyText(p *float64) string {
	if p == nil {
		return "-"
	}
	return output.Duration(seconds(*p))
}
