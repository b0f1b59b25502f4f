//go:build bench

package bench

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"steward/e2e/process"
)

// TestStart measures a first start, starts on an existing directory, and the memory of an idle process.
func TestStart(t *testing.T) {
	if _, err := process.Binary(); err != nil { // built before anything is measured
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
				memory = max(memory, residentMB(t, s.Cmd.Process.Pid))
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

func residentMB(t *testing.T, pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	kb, err := strconv.ParseFloat(string(regexp.MustCompile(`VmRSS:\s+(\d+)`).FindSubmatch(status)[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return kb * 1024 / 1e6
}
