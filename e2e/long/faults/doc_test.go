// Package faults breaks installations while clients use every area of them, and compares afterwards
// what is stored with what was acknowledged.
//
// A cluster is one or more processes on SQLite or PostgreSQL, behind HAProxy if there are several. A
// workload has two organizations write to every area, each write with a number. A fault happens
// meanwhile. Then every acknowledged write must be there, no write that is done once may have been done
// twice, and totals must be those of the rows. The report says how many writes were acknowledged, lost
// and repeated, and the longest time without an acknowledgement in an area.
//
// No test sleeps. Before and after a fault, every area acknowledges STEWARD_TEST_FAULTS more writes, 10
// unless set; a fault lasts until it shows, such as by requests that are refused.
package faults

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

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

// moreWrites returns how many writes each area acknowledges before and after a fault.
func moreWrites(t *testing.T) int {
	text := os.Getenv("STEWARD_TEST_FAULTS")
	if text == "" {
		return 10
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("STEWARD_TEST_FAULTS: %v", err)
	}
	return n
}
