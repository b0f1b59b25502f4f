//go:build bench

// Package bench measures Steward. `make bench` compares it with references of the same run: an empty
// net/http handler, a raw fsync loop, pgbench. `make bench-ab` compares it with an earlier commit.
// Figures are ratios, since machines differ and are never idle.
//
// The load comes from this process, over raw connections, so that it costs little. Servers are
// processes of their own, so that their CPU time can be read.
package bench

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/db"
	"steward/internal/db/dbtest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("BENCH_ROLE"); role != "" {
		serve(roles[role]())
		return
	}
	os.Exit(process.Main(m))
}

// roles are the servers that Steward is compared with or sends to. Each runs in a process of its own.
var roles = map[string]func() http.Handler{
	"reference": newReference, "sink": newSink, "forwarder": newForwarder, "files": newFileServer, "libsql": newLibSQL,
}

func serve(h http.Handler) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr())
	panic(http.Serve(listener, h)) // the test kills this process
}

// newReference returns the handler that HTTP figures are compared with. It reads the body and responds
// with a few bytes of JSON.
func newReference() http.Handler {
	body := []byte(`[{"region":"local","description":"This machine"}]` + "\n")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // fails if the client has gone
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	})
}

// client sends the requests that are not measured. Only a run that hangs reaches its timeout.
var client = &http.Client{Timeout: 5 * time.Minute}

// server is a process under load.
type server struct {
	address string // host:port
	pid     int
}

func startReference(t *testing.T) server { return startRole(t, "reference") }

// startRole runs one of the roles. It ends with the test, or with the test's own process.
func startRole(t *testing.T, role string, env ...string) server {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "BENCH_ROLE="+role)
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // returns that it was killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return server{address: strings.TrimSpace(line), pid: cmd.Process.Pid}
}

// onEach measures one database after the other, in subtests: ONLY=TestX/sqlite selects one.
func onEach(t *testing.T, measure func(t *testing.T, database string, dialect db.Dialect)) {
	for i, database := range process.Databases {
		t.Run(database, func(t *testing.T) { measure(t, database, dbtest.Dialects[i]) })
	}
}

// rowCount returns the number of rows that lists are measured with: BENCH_ROWS, or a million.
func rowCount(t *testing.T) int { return envInt(t, "BENCH_ROWS", 1_000_000) }

func envInt(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
