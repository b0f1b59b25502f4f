package queue

import (
	"testing"
	"time"
)

func TestPolicy(t *testing.T) {
	policy := []time.Duration{
		1: 5 * time.Second, 2: 30 * time.Second, 3: 2 * time.Minute, 4: 10 * time.Minute, 5: time.Hour, 6: 3 * time.Hour, 7: 8 * time.Hour,
		8: 12 * time.Hour, 9: 12 * time.Hour, 20: 12 * time.Hour,
	}
	for n, want := range policy {
		if want == 0 {
			continue
		}
		low, high := want, want
		for range 2000 {
			d := Result{Row: Row{Retries: n - 1}}.RetryAt().Sub(0)
			low, high = min(low, d), max(high, d)
		}
		if low < want*8/10 || high > want*12/10 || low > want*82/100 || high < want*118/100 {
			t.Errorf("attempt %d: %v to %v around %v", n, low, high, want)
		}
	}
}
