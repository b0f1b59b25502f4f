package dbtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"steward/internal/waittest"
)

var errNoServer = errors.New("no initdb in PATH or /usr/lib/postgresql/*/bin: " +
	"install the Debian package postgresql, or set STEWARD_TEST_POSTGRES to the URL of a server")

// private starts this test process's server, once.
var private = sync.OnceValues(StartShared)

// Shared is a server for many tests. It runs until Stop, or as long as this process.
type Shared struct {
	URL string
	// wrapper runs the server until its standard input ends. The kernel closes that when this
	// process ends, even by kill -9.
	wrapper *exec.Cmd
	stdin   io.WriteCloser
}

// Stop ends the server and removes its files.
func (s *Shared) Stop() error {
	if err := s.stdin.Close(); err != nil {
		return err
	}
	return s.wrapper.Wait()
}

// wrapper runs the server until its standard input ends, then removes everything.
const wrapper = `
bin=$1 dir=$2 locale=$3; shift 3
"$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --no-sync --no-instructions $locale >"$dir/log" 2>&1 ||
	{ cat "$dir/log" >&2; rm -rf "$dir"; exit 1; }
"$bin/postgres" -D "$dir/data" "$@" </dev/null &
cat >/dev/null
kill -QUIT $!
wait $!
rm -rf "$dir"
`

// locale is a linguistic one: SQLite sorts by bytes, and code that relies on that must say so.
const locale = "--locale=C --locale-provider=icu --icu-locale=en-US"

// StartShared starts a server for many tests.
func StartShared() (*Shared, error) {
	bin, err := findBin()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(memory(), "steward-pg-")
	if err != nil {
		return nil, err
	}
	owner, err := unprivileged(dir)
	if err != nil {
		return nil, err
	}
	args := append([]string{"-c", wrapper, "sh", bin, dir, locale}, settings(dir)...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir = dir
	// In a session of its own, Ctrl-C at the terminal does not end the wrapper before it has cleaned
	// up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: owner}
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	log, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if err := ready(log); err != nil {
		return nil, err
	}
	query := url.Values{"host": {dir}}
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/postgres", RawQuery: query.Encode()}
	return &Shared{URL: u.String(), wrapper: cmd, stdin: stdin}, nil
}

// ready reads the server's log until the server accepts connections. It discards the rest, so that a
// full pipe never blocks the server.
func ready(log io.Reader) error {
	lines := bufio.NewScanner(log)
	var output strings.Builder
	for lines.Scan() {
		if strings.Contains(lines.Text(), "ready to accept connections") {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return nil
		}
		fmt.Fprintln(&output, lines.Text())
	}
	return fmt.Errorf("the private server did not start:\n%s", output.String())
}

// settings returns a server's arguments. Planner, JIT and memory keep PostgreSQL's defaults, so that
// tests and benchmarks run with the settings that people have.
func settings(dir string) []string {
	set := []string{"listen_addresses=", "unix_socket_directories=" + dir, "max_connections=1000"}
	if os.Getenv("STEWARD_TEST_FSYNC") == "" {
		set = append(set, "fsync=off", "full_page_writes=off")
	}
	var args []string
	for _, s := range set {
		args = append(args, "-c", s)
	}
	return args
}

// findBin returns the directory with initdb and postgres, which Debian leaves out of PATH.
func findBin() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errNoServer
	}
	return filepath.Dir(found[len(found)-1]), nil
}

// unprivileged gives the directory to a user that may run PostgreSQL, which refuses root. It returns
// nil if this process's user may.
func unprivileged(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("neither postgres nor nobody is a user to run the server as: %w", err)
		}
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, uid, gid)
}

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
