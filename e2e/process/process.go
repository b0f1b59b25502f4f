// Package process runs the real binary for end-to-end tests and benchmarks: on a free port, on either
// database, and again on the same data after a stop or a kill.
package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"steward/internal/apikey"
	"steward/internal/db/dbtest"
	"steward/internal/waittest"
)

// Databases names the database engines that Steward runs on.
var Databases = []string{"sqlite", "postgres"}

// buildDir is the directory with the binary that Build makes.
var buildDir string

// Main is the TestMain for packages that run the binary. It removes the binary after the tests.
func Main(m *testing.M) int {
	var err error
	buildDir, err = os.MkdirTemp("", "steward-binary-")
	if err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(buildDir); err != nil {
		panic(err)
	}
	return code
}

// Build builds this tree, once in each test process, and returns the binary's path. If
// STEWARD_TEST_BINARY names a binary, it returns that instead, so that all packages share one.
var Build = sync.OnceValues(func() (string, error) {
	if built := os.Getenv("STEWARD_TEST_BINARY"); built != "" {
		if _, err := os.Stat(built); err != nil {
			return "", fmt.Errorf("STEWARD_TEST_BINARY: %w", err)
		}
		if filepath.Base(built) != "steward" { // scripts for the command line call it by this name
			return "", fmt.Errorf("STEWARD_TEST_BINARY: the file %s must be named steward", built)
		}
		return built, nil
	}
	path := filepath.Join(buildDir, "steward")
	out, err := exec.Command("go", "build", "-o", path, "steward/cmd/steward").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
})

// BuildCommit builds one of this repository's commits from an archive, and returns the binary's path.
func BuildCommit(t testing.TB, commit string) string {
	t.Helper()
	dir := t.TempDir()
	archive := filepath.Join(dir, "commit.tar")
	binary := filepath.Join(dir, "steward-"+commit)
	for _, args := range [][]string{
		{"git", "-C", Root(t), "archive", "--output", archive, commit},
		{"tar", "-x", "-f", archive, "-C", dir},
		{"go", "-C", dir, "build", "-o", binary, "./cmd/steward"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", args, err, out)
		}
	}
	return binary
}

// Root returns this repository's directory.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod in this directory or above it")
		}
		dir = filepath.Dir(dir)
	}
}

// Steward is one installation and the process that serves it.
type Steward struct {
	T        testing.TB
	Binary   string   // the binary's path; empty for this tree's
	Dir      string   // data directory
	Database string   // PostgreSQL URL, or empty for SQLite
	Env      []string // additional environment
	Args     []string // additional arguments of `steward serve`
	Key      string   // root key
	MaxFiles int      // limit on open files, unless 0

	Cmd *exec.Cmd
	URL string
}

// New returns an installation that is not started yet.
func New(t testing.TB, database string, args ...string) *Steward {
	s := &Steward{T: t, Dir: t.TempDir(), Args: args, Key: apikey.NewValue()}
	if database == "postgres" {
		s.Database = dbtest.Postgres(t)
	}
	return s
}

// Replica returns a second process, not started yet, on the same PostgreSQL database. It has the same
// keys but its own data directory.
func (s *Steward) Replica() *Steward {
	key, err := os.ReadFile(filepath.Join(s.Dir, "master.key"))
	s.Must(err)
	r := &Steward{
		T: s.T, Binary: s.Binary, Dir: s.T.TempDir(), Database: s.Database, Key: s.Key, Args: s.Args, Env: s.Env,
	}
	s.Must(os.WriteFile(filepath.Join(r.Dir, "master.key"), key, 0o600))
	return r
}

// Command returns a command that runs the binary on the installation's data.
func (s *Steward) Command(args ...string) *exec.Cmd {
	s.T.Helper()
	path := s.Binary
	if path == "" {
		built, err := Build()
		s.Must(err)
		path = built
	}
	cmd := exec.Command(path, append(args, "--data", s.Dir)...)
	cmd.Env = append(os.Environ(), "STEWARD_DATABASE_URL="+s.Database)
	return cmd
}

// Serve returns a command that serves the installation on free ports.
func (s *Steward) Serve(args ...string) *exec.Cmd {
	s.T.Helper()
	free := []string{"serve", "--listen", "127.0.0.1:0", "--s3-listen", "127.0.0.1:0", "--kv-listen", "127.0.0.1:0", "--metrics-listen", ""}
	return s.Command(append(free, args...)...)
}

// WriteSchema creates the schema of a new database from a template, because the migrations take half of a
// first start's CPU time. New has done so on PostgreSQL.
func (s *Steward) WriteSchema() {
	s.T.Helper()
	if s.Database == "" && s.Binary == "" {
		dbtest.WriteSQLite(s.T, filepath.Join(s.Dir, "steward.db"))
	}
}

// Start runs the process and waits until it is ready. The process ends with the test, or with the test's own
// process.
func (s *Steward) Start() {
	s.T.Helper()
	s.WriteSchema()
	s.Cmd = s.limitFiles(s.Serve(s.Args...))
	s.Cmd.Env = append(s.Cmd.Env, "STEWARD_ROOT_KEY="+s.Key)
	s.Cmd.Env = append(s.Cmd.Env, s.Env...)
	s.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(s.logFile())
	s.Must(err)
	s.Cmd.Stderr = log
	stdout, err := s.Cmd.StdoutPipe()
	s.Must(err)
	s.Must(s.Cmd.Start())
	s.T.Cleanup(s.Kill)
	s.Must(log.Close())

	ready := make(chan string, 1)
	go func() {
		ready <- readURL(stdout)
		_, _ = io.Copy(io.Discard, stdout) // until the process ends
	}()
	s.URL = waittest.Receive(s.T, "the process to start", ready)
	if s.URL == "" {
		s.Kill()
		s.T.Fatalf("steward did not start: %s", s.Log())
	}
}

// limitFiles wraps a command so that it first limits open files, if there is a limit. It sets the hard
// limit too, since Go programs raise the soft one.
func (s *Steward) limitFiles(cmd *exec.Cmd) *exec.Cmd {
	if s.MaxFiles == 0 {
		return cmd
	}
	args := []string{"-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(s.MaxFiles)}
	limited := exec.Command("sh", append(args, cmd.Args...)...)
	limited.Env = cmd.Env
	return limited
}

// readURL reads the process's output until it contains the URL, and returns that. It returns "" if the
// output ends first.
func readURL(stdout io.Reader) string {
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		address, found := strings.CutPrefix(strings.TrimSpace(lines.Text()), "API ")
		if found {
			return strings.TrimSpace(address)
		}
	}
	return ""
}

// Kill ends the process with SIGKILL.
func (s *Steward) Kill() {
	if s.Cmd.ProcessState == nil {
		_ = s.Cmd.Process.Kill() // it may have ended already
		_ = s.Cmd.Wait()         // reports the kill
	}
}

// Stop ends the process with SIGINT, which skips the drain delay, and fails unless it exits with status
// 0.
func (s *Steward) Stop() {
	s.T.Helper()
	s.Must(s.Cmd.Process.Signal(os.Interrupt))
	s.Wait()
}

// Drain ends the process with SIGTERM, as an operator does behind a balancer, and fails unless it exits
// with status 0.
func (s *Steward) Drain() {
	s.T.Helper()
	s.Must(s.Cmd.Process.Signal(syscall.SIGTERM))
	s.Wait()
}

// Wait waits for the process to end, and fails unless it exits with status 0.
func (s *Steward) Wait() {
	s.T.Helper()
	ended := make(chan error, 1)
	go func() { ended <- s.Cmd.Wait() }()
	s.Must(waittest.Receive(s.T, "the process to stop", ended))
}

// Organization runs `steward organization create`, whether the process runs or not, and returns the new
// organization's root key.
func (s *Steward) Organization(name string) (key string) {
	s.T.Helper()
	out, err := s.Command("organization", "create", name).Output()
	s.Must(err)
	return strings.TrimSpace(string(out))
}

// Must fails the test on an error.
func (s *Steward) Must(err error) {
	s.T.Helper()
	if err != nil {
		s.T.Fatal(err)
	}
}

// Log returns the process's standard error since its last start.
func (s *Steward) Log() string {
	s.T.Helper()
	text, err := os.ReadFile(s.logFile())
	s.Must(err)
	return string(text)
}

func (s *Steward) logFile() string { return filepath.Join(s.Dir, "stderr.log") }
