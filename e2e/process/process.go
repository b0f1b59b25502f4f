// Package process runs the real binary for end-to-end tests and benchmarks: on a free port, on either database, killed and started again.
package process

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"steward/internal/apikey"
	"steward/internal/db/dbtest"
)

// Databases are the engines that everything runs on.
var Databases = []string{"sqlite", "postgres"}

// built is where Main has the binary put.
var built string

// Main is the TestMain of a package that starts the binary: it gives the binary a place, and removes it afterwards.
func Main(m *testing.M) int {
	var err error
	if built, err = os.MkdirTemp("", "steward-binary-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(built)
	return m.Run()
}

// Binary is the program under test: built once for each test process, from this tree.
var Binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built, "steward")
	out, err := exec.Command("go", "build", "-o", path, "steward/cmd/steward").CombinedOutput()
	if err != nil {
		os.Stderr.Write(out)
	}
	return path, err
})

// Steward is one installation, and the process that serves it.
type Steward struct {
	T        testing.TB
	Dir      string
	Database string   // a PostgreSQL URL, or empty
	Env      []string // further environment
	Args     []string // further arguments of `steward serve`
	Key      string   // the root key

	Cmd *exec.Cmd
	URL string
}

// New makes an installation that is not started yet.
func New(t testing.TB, database string, args ...string) *Steward {
	s := &Steward{T: t, Dir: t.TempDir(), Args: args, Key: apikey.NewValue()}
	if database == "postgres" {
		s.Database = dbtest.Postgres(t)
	}
	return s
}

// Replica makes a second process on the same PostgreSQL database, with the same keys and a directory of its own.
func (s *Steward) Replica() *Steward {
	key, err := os.ReadFile(filepath.Join(s.Dir, "master.key"))
	s.Must(err)
	r := &Steward{T: s.T, Dir: s.T.TempDir(), Database: s.Database, Key: s.Key, Args: s.Args, Env: s.Env}
	s.Must(os.WriteFile(filepath.Join(r.Dir, "master.key"), key, 0o600))
	return r
}

// Command is the binary on this installation's data.
func (s *Steward) Command(args ...string) *exec.Cmd {
	path, err := Binary()
	s.Must(err)
	cmd := exec.Command(path, append(args, "--data", s.Dir)...)
	cmd.Env = append(os.Environ(), "STEWARD_DATABASE_URL="+s.Database)
	return cmd
}

// Start runs the process and waits until it is ready. The process ends with the test, or with the test's process.
func (s *Steward) Start() {
	s.T.Helper()
	s.Cmd = s.Command(append([]string{"serve", "--listen", "127.0.0.1:0", "--metrics-listen", ""}, s.Args...)...)
	s.Cmd.Env = append(append(s.Cmd.Env, "STEWARD_ROOT_KEY="+s.Key), s.Env...)
	s.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(s.logFile())
	s.Must(err)
	defer log.Close()
	s.Cmd.Stderr = log
	stdout, err := s.Cmd.StdoutPipe()
	s.Must(err)
	s.Must(s.Cmd.Start())
	s.T.Cleanup(s.Kill)
	s.await(stdout)
}

// await reads what the process prints until it says where it can be reached.
func (s *Steward) await(stdout io.Reader) {
	s.T.Helper()
	s.URL = ""
	lines := bufio.NewScanner(stdout)
	for s.URL == "" && lines.Scan() {
		if address, found := strings.CutPrefix(strings.TrimSpace(lines.Text()), "API "); found {
			s.URL = strings.TrimSpace(address)
		}
	}
	if s.URL == "" {
		s.Cmd.Wait()
		s.T.Fatalf("steward did not start: %s", s.Log())
	}
	go io.Copy(io.Discard, stdout)
}

// Kill ends the process as a power cut would.
func (s *Steward) Kill() {
	if s.Cmd.ProcessState == nil {
		s.Cmd.Process.Kill()
		s.Cmd.Wait()
	}
}

// Stop asks the process to end, and fails unless it does so in order and in time.
func (s *Steward) Stop() {
	s.T.Helper()
	s.Must(s.Cmd.Process.Signal(syscall.SIGTERM))
	ended := make(chan error, 1)
	go func() { ended <- s.Cmd.Wait() }()
	select {
	case err := <-ended:
		s.Must(err)
	case <-time.After(20 * time.Second):
		s.T.Fatal("steward did not stop within 20 s")
	}
}

// Must ends the test on an error.
func (s *Steward) Must(err error) {
	s.T.Helper()
	if err != nil {
		s.T.Fatal(err)
	}
}

// Log gives what the process has written to standard error. A file holds it, so that reading it costs the benchmarks nothing.
func (s *Steward) Log() string {
	text, err := os.ReadFile(s.logFile())
	s.Must(err)
	return string(text)
}

func (s *Steward) logFile() string { return filepath.Join(s.Dir, "stderr.log") }
