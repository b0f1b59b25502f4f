package load

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

// TestHeaderFieldsCostLittleCPU sends a request of 66 KB with 9,608 header names to a webhook with 50
// destinations, which took 13.7 s of CPU time, and then the largest request that is accepted.
func TestHeaderFieldsCostLittleCPU(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	k, h := sink.New(t), s.NewHook("orders")
	for i := range 50 {
		s.NewDestination(h, fmt.Sprintf("%s/hook-%d", k.URL, i), "max_retries", 0, "timeout_seconds", 60)
	}
	for what, fields := range map[string]string{
		"9,608 header names":               installation.HeaderFields(9608, ""),
		"198 header fields of 320 B, 66 K": installation.HeaderFields(198, strings.Repeat("v", 320)),
	} {
		before := s.CPUTime()
		status, _ := s.RawEvent(h, fields)
		s.WaitEnded(map[string]installation.Hook{"": h})
		used := s.CPUTime() - before
		t.Logf("%s: %d, %v of CPU time", what, status, used)
		if used > 2*time.Second {
			t.Errorf("%s: %v of CPU time, at most 2 s are allowed", what, used)
		}
	}
	if n := k.Count("/hook-0"); n != 1 {
		t.Errorf("%d events arrived, want 1", n)
	}
}
