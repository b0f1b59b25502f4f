package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// RSS returns the process's resident memory in bytes.
func (s *Steward) RSS() int {
	s.T.Helper()
	return s.memory("VmRSS")
}

// PeakRSS returns the most resident memory that the process has had since its start, in bytes.
func (s *Steward) PeakRSS() int {
	s.T.Helper()
	return s.memory("VmHWM")
}

func (s *Steward) memory(field string) int {
	s.T.Helper()
	return Memory(s.T, s.Cmd.Process.Pid, field)
}

// Memory returns a figure about a process's memory, such as VmRSS, in bytes.
func Memory(t testing.TB, pid int, field string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kilobytes int
		if n, _ := fmt.Sscanf(line, field+": %d kB", &kilobytes); n == 1 {
			return kilobytes << 10
		}
	}
	t.Fatalf("/proc/%d/status has no %s", pid, field)
	return 0
}

// CPUTime returns the CPU time that the process has used.
func (s *Steward) CPUTime() time.Duration {
	s.T.Helper()
	return CPUTime(s.T, s.Cmd.Process.Pid)
}

// CPUTime returns the CPU time that a process has used, in steps of 10 ms.
func CPUTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	s, err := readStat(pid)
	if err != nil {
		t.Fatal(err)
	}
	return s.own
}

// FamilyCPUTime returns the CPU time that a process and its children have used, including children that
// have ended.
func FamilyCPUTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	parent, err := readStat(pid)
	if err != nil {
		t.Fatal(err)
	}
	sum := parent.own + parent.ended
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		child, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		s, err := readStat(child)
		if err == nil && s.parent == pid { // else it has ended or belongs to another family
			sum += s.own
		}
	}
	return sum
}

// stat holds figures from /proc/PID/stat.
type stat struct {
	parent     int
	own, ended time.Duration // CPU time for the process, and for its children that have ended
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
	numbers := map[int]int{1: 0, 11: 0, 12: 0, 13: 0, 14: 0} // ppid, utime, stime, cutime, cstime
	for i := range numbers {
		numbers[i], err = strconv.Atoi(fields[i])
		if err != nil {
			return stat{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	const tick = 10 * time.Millisecond
	return stat{
		parent: numbers[1],
		own:    time.Duration(numbers[11]+numbers[12]) * tick,
		ended:  time.Duration(numbers[13]+numbers[14]) * tick,
	}, nil
}

// LocalAddresses returns the local IPv4 loopback addresses (127.0.0.1:port) that the process has open TCP
// connections on.
func (s *Steward) LocalAddresses() map[string]bool {
	s.T.Helper()
	proc := fmt.Sprintf("/proc/%d/", s.Cmd.Process.Pid)
	files, err := filepath.Glob(proc + "fd/*")
	s.Must(err)
	sockets := map[string]bool{}
	for _, file := range files {
		link, err := os.Readlink(file)
		if err == nil { // else it was closed meanwhile
			sockets[link] = true
		}
	}
	table, err := os.ReadFile(proc + "net/tcp")
	s.Must(err)
	addresses := map[string]bool{}
	for _, line := range strings.Split(string(table), "\n")[1:] {
		fields := strings.Fields(line)
		if len(fields) < 10 || !sockets["socket:["+fields[9]+"]"] {
			continue
		}
		var host, port uint32
		_, err := fmt.Sscanf(fields[1], "%08X:%04X", &host, &port)
		s.Must(err)
		addresses[fmt.Sprintf("127.0.0.1:%d", port)] = true
	}
	return addresses
}
