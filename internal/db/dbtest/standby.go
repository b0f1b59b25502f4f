package dbtest

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"steward/internal/porttest"
	"steward/internal/waittest"
)

// Kill ends all processes of the server at once, as a power failure does. Start starts it again.
func (s *Server) Kill() {
	s.t.Helper()
	pids := s.processes()
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	s.Stop()
	for _, pid := range pids {
		waittest.True(s.t, "PostgreSQL to end", func() bool { return syscall.Kill(pid, 0) != nil })
	}
}

// copyServer copies a running server to a directory, from where it follows that as a standby.
const copyServer = `
exec "$1/pg_basebackup" -D "$2/data" -d "$3" -R -X stream -c fast --no-sync
`

// Standby starts a server that follows this one. With synchronous_standby_names=* of this one, nothing
// is committed that the standby does not have.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	r := &Server{t: t, bin: s.bin}
	var err error
	r.dir, err = os.MkdirTemp("", "steward-pg-")
	r.must(err)
	t.Cleanup(func() { r.must(os.RemoveAll(r.dir)) })
	r.owner, err = unprivileged(r.dir)
	r.must(err)
	out, err := r.shell(copyServer, s.URL).CombinedOutput()
	if err != nil {
		t.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
	r.LogFile = filepath.Join(t.TempDir(), "log")
	port := strconv.Itoa(porttest.Free(t))
	for i := 0; i < len(s.args); i += 2 {
		setting := s.args[i+1]
		switch name, _, _ := strings.Cut(setting, "="); name {
		case "port":
			setting = "port=" + port
		case "unix_socket_directories":
			setting = "unix_socket_directories=" + r.dir
		case "synchronous_standby_names":
			setting = "synchronous_standby_names="
		}
		r.args = append(r.args, "-c", setting)
	}
	u, err := url.Parse(s.URL)
	r.must(err)
	u.Host = net.JoinHostPort("127.0.0.1", port)
	r.URL = u.String()
	r.Start()
	t.Cleanup(r.Stop)
	return r
}

// Promote makes a standby a server of its own.
func (s *Server) Promote() {
	s.t.Helper()
	out, err := s.shell(`exec "$1/pg_ctl" promote -w -D "$2/data"`).CombinedOutput()
	if err != nil {
		s.t.Fatalf("pg_ctl promote: %v\n%s", err, out)
	}
}
