//go:build bench

package bench

import (
	"slices"
	"testing"
	"time"

	"steward/e2e/process"
)

// TestStart measures the first start, the start on an existing directory, and the memory of an idle
// process.
func TestStart(t *testing.T) {
	if _, err := process.Build(); err != nil { // before anything is measured
		t.Fatal(err)
	}
	var first, later []time.Duration
	var memory float64
	for range 5 {
		s := process.New(t, "sqlite")
		for _, times := range []*[]time.Duration{&first, &later} {
			began := time.Now()
			s.Start()
			*times = append(*times, time.Since(began))
			if times == &later {
				memory = max(memory, float64(s.RSS())/1e6)
			}
			s.Stop()
		}
	}
	slices.Sort(first)
	slices.Sort(later)
	report("first start, ms", millis(first[2]), atMost(1500), "of %v", first)
	report("start on an existing directory, ms", millis(later[2]), atMost(300), "of %v", later)
	report("memory when idle, MB", memory, atMost(60), "maximum of %d", len(later))
}
