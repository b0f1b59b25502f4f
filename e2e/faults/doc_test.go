// Package faults breaks installations while clients use every area of them, and compares afterwards
// what is stored with what was acknowledged.
//
// A cluster is one or more processes on SQLite or PostgreSQL, behind HAProxy if there are several. A
// workload has two organizations write to every area, each write with a number. A fault happens
// meanwhile. Then every acknowledged write must be there, and no write that is done once may have been
// done twice. The report says how many writes were acknowledged, lost and repeated, and the longest time
// without an acknowledgement in an area.
//
// `make faults` has clients write for 8 seconds before, during and after each fault; with the other
// tests it is 3.
package faults

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"steward/e2e/process"
)

var report struct {
	sync.Mutex
	rows []string
}

func TestMain(m *testing.M) {
	code := process.Main(m)
	if len(report.rows) > 0 {
		fmt.Println("| fault | acknowledged | refused | lost | repeated | longest gap |\n|---|---|---|---|---|---|")
	}
	for _, row := range report.rows {
		fmt.Println(row)
	}
	os.Exit(code)
}

// length returns for how long clients write before, during and after a fault.
func length(t *testing.T) time.Duration {
	text := os.Getenv("STEWARD_TEST_FAULTS")
	if text == "" {
		return 3 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("STEWARD_TEST_FAULTS: %v", err)
	}
	return d
}
