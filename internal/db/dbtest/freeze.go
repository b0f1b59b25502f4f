package dbtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Freeze stops all server processes where they are, as on a hung machine: connections stay open, and
// new ones get no response. The returned function resumes them; you may call it more than once.
func (s *Server) Freeze() (thaw func()) {
	s.t.Helper()
	pids := s.processes()
	signal := func(sig syscall.Signal) {
		for _, pid := range pids {
			_ = syscall.Kill(pid, sig) // it may have ended
		}
	}
	signal(syscall.SIGSTOP)
	thaw = func() { signal(syscall.SIGCONT) }
	s.t.Cleanup(thaw)
	return thaw
}

// processes returns the server's process ids, the first process first.
func (s *Server) processes() []int {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "data", "postmaster.pid"))
	s.must(err)
	first, _, _ := strings.Cut(string(text), "\n")
	postmaster, err := strconv.Atoi(first)
	s.must(err)
	all := []int{postmaster}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	s.must(err)
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		s.must(err)
		if parent(pid) == postmaster {
			all = append(all, pid)
		}
	}
	return all
}

// parent returns a process's parent, or 0 if it has ended.
func parent(pid int) (ppid int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, _ = fmt.Sscanf(string(stat[bytes.LastIndexByte(stat, ')')+2:]), "%c %d", new(rune), &ppid)
	return ppid
}
