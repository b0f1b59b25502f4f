package dbtest

import (
	"syscall"

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

// Standby starts a server with settings that follows this one. With synchronous_standby_names=* of this
// one, nothing is committed that the standby does not have.
func (s *Server) Standby(set ...string) *Server {
	s.t.Helper()
	standby := newFiles(s.t, copyServer, s.URL)
	standby.listen(set...)
	return standby
}

// Promote makes a standby a server of its own.
func (s *Server) Promote() {
	s.t.Helper()
	out, err := s.shell(`exec "$1/pg_ctl" promote -w -D "$2/data"`).CombinedOutput()
	if err != nil {
		s.t.Fatalf("pg_ctl promote: %v\n%s", err, out)
	}
}
