// Package redistest provides tests and benchmarks with private redis-servers on loopback ports.
package redistest

import (
	"bufio"
	"io"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"steward/internal/porttest"
)

// Password is the password for the default user, who may do everything.
const Password = "of-the-default-user"

// Server is a server that ends with its test, or with the test process.
type Server struct {
	// URL has the default user's credentials.
	URL string
	// Addr is its address, such as 127.0.0.1:6379.
	Addr string
	// Dir is its working directory, where it keeps its files.
	Dir string

	t    testing.TB
	args []string
	cmd  *exec.Cmd
}

// Start starts a server with additional arguments, such as --appendonly yes. It persists nothing unless
// they say so. With the arguments from Certificate it only speaks TLS.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	port := porttest.Free(t)
	s := newServer(t, port)
	flags := []string{"--port", strconv.Itoa(port)}
	if slices.Contains(args, certificateFlag) {
		flags = []string{"--port", "0", "--tls-port", strconv.Itoa(port)}
		s.URL = "rediss" + strings.TrimPrefix(s.URL, "redis") + "?skip_verify=true"
	}
	s.args = slices.Concat([]string{program(t)}, flags, []string{"--bind", "127.0.0.1", "--dir", s.Dir, "--save", ""}, withPassword(args))
	s.Restart()
	t.Cleanup(s.Stop)
	return s
}

// newServer returns a server that has not been started.
func newServer(t testing.TB, port int) *Server {
	s := &Server{t: t, Dir: t.TempDir(), Addr: porttest.Address(port)}
	u := url.URL{Scheme: "redis", User: url.UserPassword("default", Password), Host: s.Addr, Path: "/0"}
	s.URL = u.String()
	return s
}

// program returns the path to redis-server.
func program(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("no redis-server in PATH: install the Debian package redis-server")
	}
	return path
}

// withPassword adds the password, unless the server reads its users from a file. Redis does not allow both.
func withPassword(args []string) []string {
	if slices.Contains(args, "--aclfile") {
		return args
	}
	return append([]string{"--requirepass", Password}, args...)
}

// Restart starts the server. If it is running, Restart stops it first.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.ready(log)
}

// ready reads the log until the server accepts connections, and discards the rest.
func (s *Server) ready(log io.Reader) {
	s.t.Helper()
	var output strings.Builder
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if strings.Contains(lines.Text(), "eady to accept connections") || strings.Contains(lines.Text(), "+monitor master") {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return
		}
		output.WriteString(lines.Text() + "\n")
	}
	s.t.Fatalf("redis-server did not start:\n%s", output.String())
}

// Stop stops the server with SIGTERM, which cuts all connections. It does nothing if the server is not
// running.
func (s *Server) Stop() {
	s.t.Helper()
	if s.cmd == nil {
		return
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Errorf("stop redis-server: %v", err)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("stop redis-server: %v", err)
	}
	s.cmd = nil
}
