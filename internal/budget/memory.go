package budget

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// MemoryLimit returns how many bytes of memory the process may use: the lowest of GOMEMLIMIT, its
// cgroups' limits, and the machine's memory.
func MemoryLimit() int64 {
	limit := int64(math.MaxInt64)
	var machine syscall.Sysinfo_t
	if err := syscall.Sysinfo(&machine); err == nil {
		limit = int64(machine.Totalram) * int64(machine.Unit)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		limit = min(limit, debug.SetMemoryLimit(-1)) // reads it
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return limit
	}
	return min(limit, cgroupLimit("/sys/fs/cgroup", string(groups)))
}

// cgroupLimit returns the lowest memory limit in the cgroups that the lines of /proc/self/cgroup
// name, and in those above them.
func cgroupLimit(root, lines string) int64 {
	limit := int64(math.MaxInt64)
	for line := range strings.Lines(lines) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		switch controllers {
		case "": // version 2
			limit = min(limit, lowest(root, group, "memory.max"))
		case "memory":
			limit = min(limit, lowest(root+"/memory", group, "memory.limit_in_bytes"))
		}
	}
	return limit
}

// lowest returns the lowest number in a file of this name in a group and in those above it. In a
// container, the group is often not visible but the root has its limit.
func lowest(root, group, file string) int64 {
	limit := int64(math.MaxInt64)
	for {
		if text, err := os.ReadFile(path.Join(root, group, file)); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
				limit = min(limit, n)
			}
		}
		if group == "/" || group == "." || group == "" {
			return limit
		}
		group = path.Dir(group)
	}
}
