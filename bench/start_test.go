//go:build bench

package bench

import (
	"slices"
	"testing"
	"time"

	"steward/e2e/process"
)

// TestStart measures a first start, starts on an existing directory, and the memory of an idle process.
func TestStart(t *testing.T) {
	if _, err := process.Build(); err != nil { // built before anything is measured
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
	report(t, "first start, ms", millis(first[2]), 1500, false, "of %v", first)
	report(t, "start on an existing directory, ms", millis(later[2]), 300, false, "of %v", later)
	report(t, "memory when idle, MB", memory, 60, false, "the most of %d", len(later))
}
