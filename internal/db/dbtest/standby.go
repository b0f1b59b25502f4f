package dbtest

import (
	"syscall"

	"steward/internal/waittest"
)

// Kill ends all server processes at once, as a power failure does. Start starts the server again.
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

// copyServer copies a running server to a directory; the copy then follows it as a standby.
const copyServer = `
exec "$1/pg_basebackup" -D "$2/data" -d "$3" -R -X stream -c fast --no-sync
`

// Standby starts a server with settings that follows this one. If this one has
// synchronous_standby_names=*, it commits nothing that the standby does not have.
func (s *Server) Standby(set ...string) *Server {
	s.t.Helper()
	standby := newFiles(s.t, copyServer, s.URL)
	standby.listen(set...)
	return standby
}

// Promote turns a standby into an independent server.
func (s *Server) Promote() {
	s.t.Helper()
	out, err := s.shell(`exec "$1/pg_ctl" promote -w -D "$2/data"`).CombinedOutput()
	if err != nil {
		s.t.Fatalf("pg_ctl promote: %v\n%s", err, out)
	}
}
