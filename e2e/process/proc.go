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

// RSS returns the resident memory of the process in bytes.
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
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	s.Must(err)
	for line := range strings.Lines(string(status)) {
		var kilobytes int
		if n, _ := fmt.Sscanf(line, field+": %d kB", &kilobytes); n == 1 {
			return kilobytes << 10
		}
	}
	s.T.Fatalf("/proc/%d/status has no %s", s.Cmd.Process.Pid, field)
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
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+2:]))
	var ticks int64
	for _, field := range fields[11:13] { // user and system time
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatalf("/proc/%d/stat: %v", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// LocalAddresses returns the local IPv4 loopback addresses (127.0.0.1:port) of the process's open
// TCP connections.
func (s *Steward) LocalAddresses() map[string]bool {
	s.T.Helper()
	proc := fmt.Sprintf("/proc/%d/", s.Cmd.Process.Pid)
	files, err := filepath.Glob(proc + "fd/*")
	s.Must(err)
	sockets := map[string]bool{}
	for _, file := range files {
		link, err := os.Readlink(file)
		if err == nil { // else it was closed in the meantime
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
