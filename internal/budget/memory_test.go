package budget

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestCgroupLimit(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"system.slice/steward/memory.max":       "max\n",
		"system.slice/memory.max":               "157286400\n",
		"memory.max":                            "max\n",
		"memory/docker/memory.limit_in_bytes":   "9223372036854771712\n",
		"memory/docker/1/memory.limit_in_bytes": "268435456\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for lines, want := range map[string]int64{
		"0::/system.slice/steward\n":               157286400,
		"0::/elsewhere\n":                          math.MaxInt64,
		"5:memory:/docker/1\n3:cpu,cpuacct:/x\n":   268435456,
		"5:memory:/docker/1\n0::/system.slice/x\n": 157286400,
	} {
		if got := cgroupLimit(root, lines); got != want {
			t.Errorf("%q: %d, want %d", lines, got, want)
		}
	}
}

func TestMemoryLimitIsThatOfTheMachineAtMost(t *testing.T) {
	if n := MemoryLimit(); n < 64<<20 || n > 1<<50 {
		t.Errorf("%d bytes", n)
	}
}
