package top

import (
	"math"
	"testing"
	"time"
)

func TestViewHasRatesBetweenScrapes(t *testing.T) {
	start := time.Unix(1e9, 0)
	before := scrape{at: start, accepted: 100, succeeded: 50, requests: 1000, latency: buckets{0.1: 90, 1: 100, math.Inf(1): 100}}
	after := scrape{
		at: start.Add(2 * time.Second), accepted: 120, succeeded: 10, // restarted
		requests: 1100, errors: 4, latency: buckets{0.1: 140, 1: 200, math.Inf(1): 200},
	}
	v := newView(before, after)
	if v.Ingest != 10 || v.Delivered != 5 || v.Requests != 50 || v.Errors != 2 {
		t.Errorf("got %+v", v)
	}
	if *v.P50 != 0.1 || math.Abs(*v.P99-0.982) > 1e-9 {
		t.Errorf("p50 %v, p99 %v", *v.P50, *v.P99)
	}
	if idle := newView(after, scrape{at: after.at.Add(time.Second), latency: after.latency}); idle.P99 != nil {
		t.Errorf("p99 %v without requests", *idle.P99)
	}
}

func TestQuantileAboveTheHighestBound(t *testing.T) {
	if got, ok := (buckets{0.1: 0, 1: 1, math.Inf(1): 10}).quantile(0.99); !ok || got != 1 {
		t.Errorf("got %v %t", got, ok)
	}
}

func TestViewFitsTheScreen(t *testing.T) {
	const text = "Größe 123\n\nsecond\nthird\n"
	for _, test := range []struct {
		width, height int
		want          string
	}{
		{80, 24, text},
		{9, 5, text},
		{5, 24, "Größe\n\nsecon\nthird\n"},
		{80, 3, "Größe 123\n\n"},
		{1, 1, "G\n"},
	} {
		if got := fit(text, test.width, test.height); got != test.want {
			t.Errorf("%d x %d: %q", test.width, test.height, got)
		}
	}
}
