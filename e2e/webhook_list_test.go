package e2e

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

// sumSeries returns the sum of a time series and the number of its buckets.
func sumSeries(s *installation.Steward, query string) (sum installation.WebhookTotals, buckets int) {
	s.T.Helper()
	var a struct {
		Series []struct {
			Timestamp                   time.Time
			Received, Delivered, Failed int
		}
	}
	s.Call("GET", "/webhook/analytics/org/timeseries?"+query, nil).Want(200).Decode(&a)
	for _, b := range a.Series {
		sum.Received += b.Received
		sum.Delivered += b.Delivered
		sum.Failed += b.Failed
	}
	return sum, len(a.Series)
}

// TestWebhookListsAreFilteredAndPaged compares lists and analytics with the events that were sent.
func TestWebhookListsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k, h := sink.New(t), s.NewHook("orders")
		k.Status("/bad", 500)
		good, _ := s.NewDestination(h, k.URL+"/good")
		bad, _ := s.NewDestination(h, k.URL+"/bad", "max_retries", 0)
		var ids []string
		for i := range 15 {
			ids = append(ids, s.Ingest(h, fmt.Sprint(i)))
		}
		middle := s.GetReceipt(h, ids[14]).Date.Add(time.Millisecond) // times have milliseconds
		waittest.True(t, "the next millisecond", func() bool { return time.Now().After(middle.Add(time.Millisecond)) })
		for i := range 10 {
			ids = append(ids, s.Ingest(h, fmt.Sprint(i)))
		}
		s.WaitEnded(map[string]installation.Hook{"": h})
		at := url.QueryEscape(middle.Format(time.RFC3339Nano))
		for query, want := range map[string]int{
			"": 50, "status=success": 25, "status=failed": 25, "status=pending": 0,
			"destinationId=" + good:                         25,
			"destinationId=" + bad:                          25,
			"destinationId=" + good + "&status=failed":      0,
			"destinationId=whds_01jcq3v5w8z9d6y4k2m7n0p1rt": 0,
			"receiptId=" + ids[3]:                           2,
			"receiptId=" + ids[3] + "&status=failed":        1,
			"since=" + at:                                   20,
			"until=" + at:                                   30,
			"since=" + at + "&status=failed":                10,
		} {
			got := s.ListDeliveries(h, query)
			total := s.Total("/webhook/delivery-list/" + h.ID + "?" + query)
			if len(got) != want || total != fmt.Sprint(want) {
				t.Errorf("?%s: %d deliveries, total %s, want %d", query, len(got), total, want)
			}
		}
		for query, want := range map[string]string{
			"since=" + at: "10", "until=" + at: "15", "since=" + at + "&until=" + at: "0",
		} {
			if total := s.Total("/webhook/receipt-list/" + h.ID + "?" + query); total != want {
				t.Errorf("?%s: %s receipts, want %s", query, total, want)
			}
		}
		s.Call("GET", "/webhook/delivery-list/"+h.ID+"?status=lost", nil).Want(422)
		s.Call("GET", "/webhook/delivery-list/"+h.ID+"?since=yesterday", nil).Want(422)
		checkAnalytics(s, installation.WebhookTotals{Received: 25, Delivered: 25, Failed: 25})
		slices.Reverse(ids)
		more := func() { s.Ingest(h, "between two pages") }
		if got := s.Pages("/webhook/receipt-list/"+h.ID+"?limit=7", more); !slices.Equal(got, ids) {
			t.Errorf("the pages have %d of %d receipts: %v", len(got), len(ids), got)
		}
		got := s.Pages("/webhook/delivery-list/"+h.ID+"?limit=4&destinationId="+bad, more)
		slices.Sort(got)
		if unique := slices.Compact(slices.Clone(got)); len(got) != 25+4 || len(unique) != len(got) {
			t.Errorf("the pages have %d deliveries, %d of them different, want 29: %v", len(got), len(unique), got)
		}
	})
}

// checkAnalytics compares summary and series, at every granularity.
func checkAnalytics(s *installation.Steward, want installation.WebhookTotals) {
	s.T.Helper()
	now := time.Now().UTC()
	start := now.Add(-2 * time.Hour).Format(time.RFC3339)
	end := now.Add(time.Minute).Format(time.RFC3339)
	for _, query := range []string{
		"", "granularity=day", "granularity=minute", "start=" + start,
		"start=" + start + "&end=" + end + "&granularity=minute",
	} {
		if got := s.WebhookTotals(query); got != want {
			s.T.Errorf("?%s: the summary is %+v, want %+v", query, got, want)
		}
		if got, buckets := sumSeries(s, query); got != want || buckets == 0 {
			s.T.Errorf("?%s: the sum of %d buckets is %+v, want %+v", query, buckets, got, want)
		}
	}
	if _, buckets := sumSeries(s, ""); buckets < 24 || buckets > 25 {
		s.T.Errorf("a day has %d hours", buckets)
	}
	if got := s.WebhookTotals("end=" + start); got != (installation.WebhookTotals{}) {
		s.T.Errorf("before anything was sent: %+v", got)
	}
	year := now.AddDate(-1, 0, 0).Format(time.RFC3339) // has more than 10,000 minutes
	s.Call("GET", "/webhook/analytics/org/timeseries?granularity=minute&start="+year, nil).Want(422)
}
