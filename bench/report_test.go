//go:build bench

package bench

import (
	"fmt"
	"slices"
	"time"
)

// compare measures the reference and Steward in turn, so that a disturbance affects both, and returns
// the median ratio of the rates with the last results.
func compare(rounds int, reference, steward func() result) (ratio float64, ref, got result) {
	var ratios []float64
	for range rounds {
		ref = reference()
		got = steward()
		ratios = append(ratios, got.rate/ref.rate)
	}
	return median(ratios), ref, got
}

// goal is what a figure should reach. The zero value is no goal.
type goal struct {
	value   float64
	atLeast bool // else at most
}

func atLeast(v float64) goal { return goal{v, true} }
func atMost(v float64) goal  { return goal{v, false} }

func (g goal) String() string {
	if g == (goal{}) {
		return "–"
	}
	if g.atLeast {
		return fmt.Sprintf("≥ %g", g.value)
	}
	return fmt.Sprintf("≤ %g", g.value)
}

// verdict returns "met" or "MISSED". A missed goal fails no test: it is a measurement.
func (g goal) verdict(got float64) string {
	if g == (goal{}) {
		return ""
	}
	if g.atLeast && got < g.value || !g.atLeast && got > g.value {
		return "MISSED"
	}
	return "met"
}

// report prints a figure beside its goal.
func report(what string, got float64, g goal, format string, args ...any) {
	details := fmt.Sprintf(format, args...)
	fmt.Printf("%-58s %8.3f  (goal %s: %s)  %s\n", what, got, g, g.verdict(got), details)
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", millis(d)) }

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// round rounds to a tenth.
func round(v float64) float64 { return float64(int64(v*10+0.5)) / 10 }

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}
