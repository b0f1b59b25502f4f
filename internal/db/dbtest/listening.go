package dbtest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"steward/internal/porttest"
	"steward/internal/waittest"
)

// Server is one test's private server. It listens on a loopback port, asks for passwords, and you
// can stop and restart it.
type Server struct {
	// URL connects as the superuser.
	URL string
	// LogFile is the path to the server's log.
	LogFile string

	t     testing.TB
	dir   string
	bin   string
	owner *syscall.Credential
	args  []string
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// password is the superuser's.
const password = "of-the-superuser"

// initialize makes the files for a server that asks for passwords.
const initialize = `
printf %s "$3" >"$2/password"
exec "$1/initdb" -D "$2/data" -U postgres -A scram-sha-256 --pwfile "$2/password" -E UTF8 --no-sync $4
`

// supervise runs a server until it reads a line from its standard input. If that ends without a
// line, the test's process has ended, and supervise removes everything.
const supervise = `
bin=$1 dir=$2; shift 2
"$bin/postgres" -D "$dir/data" "$@" </dev/null &
read line
kill -INT $!
wait $!
[ -n "$line" ] || rm -rf "$dir"
`

// NewServer starts a server with settings such as max_connections=20.
func NewServer(t testing.TB, set ...string) *Server {
	t.Helper()
	s := newFiles(t, initialize, password, locale)
	s.listen(set...)
	return s
}

// newFiles returns a server that is not started yet. A script makes its files.
func newFiles(t testing.TB, script string, args ...string) *Server {
	t.Helper()
	s := &Server{t: t}
	var err error
	s.bin, err = findBin()
	s.must(err)
	s.dir, err = os.MkdirTemp(memory(), "steward-pg-")
	s.must(err)
	t.Cleanup(func() { s.must(os.RemoveAll(s.dir)) })
	s.owner, err = unprivileged(s.dir)
	s.must(err)
	out, err := s.shell(script, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("create the files of a server: %v\n%s", err, out)
	}
	s.LogFile = filepath.Join(t.TempDir(), "log")
	return s
}

// listen starts the server on a free port, with settings that override the tests' usual ones.
func (s *Server) listen(set ...string) {
	s.t.Helper()
	port := porttest.Free(s.t)
	s.args = settings(s.dir)
	for _, setting := range append(set, "listen_addresses=127.0.0.1", "port="+strconv.Itoa(port)) {
		s.args = append(s.args, "-c", setting)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", password), Path: "/postgres"}
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s.URL = u.String()
	s.Start()
	s.t.Cleanup(s.Stop)
}

// Start starts the server, after Stop.
func (s *Server) Start() {
	s.t.Helper()
	s.cmd = s.shell(supervise, s.args...)
	stdin, err := s.cmd.StdinPipe()
	s.must(err)
	log, err := os.OpenFile(s.LogFile, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	s.must(err)
	before, err := io.ReadAll(log)
	s.must(err)
	s.cmd.Stderr = log
	s.must(s.cmd.Start())
	s.must(log.Close())
	s.stdin = stdin
	waittest.Until(s.t, "PostgreSQL to start", func() (string, bool) {
		written, err := os.ReadFile(s.LogFile)
		s.must(err)
		last := string(written[len(before):])
		return last, strings.Contains(last, "ready to accept") // a standby accepts read-only ones
	})
}

// Stop stops the server, which cuts all connections. If the server is stopped already, it does
// nothing.
func (s *Server) Stop() {
	s.t.Helper()
	if s.stdin == nil {
		return
	}
	_, err := fmt.Fprintln(s.stdin, "stop")
	s.must(err)
	s.stdin = nil
	var exit *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		s.t.Errorf("stop PostgreSQL: %v", err)
	}
}

func (s *Server) shell(script string, args ...string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", append([]string{"-c", script, "sh", s.bin, s.dir}, args...)...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: s.owner}
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	return cmd
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("PostgreSQL for tests: %v", err)
	}
}
