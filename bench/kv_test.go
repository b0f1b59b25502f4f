//go:build bench

package bench

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/e2e/process"
	"steward/internal/porttest"
	"steward/internal/waittest"
)

// kvCommands are the commands that redis-benchmark measures.
var kvCommands = []string{"set", "get", "incr", "lpush", "hset", "zadd"}

// TestKV compares commands of an embedded store with redis-server, by redis-benchmark with 50 clients and
// 100,000 keys: commands per CPU second of the server, since other work on the machine decides the rest.
func TestKV(t *testing.T) {
	store := newKVStore(t)
	reference := startRedis(t)
	for _, command := range kvCommands {
		for _, pipeline := range []int{1, 16} {
			ratio, ref, got := compare(3,
				func() result { return reference.load(t, command, pipeline) },
				func() result { return store.load(t, command, pipeline) })
			report(fmt.Sprintf("kv: %s, pipeline %d, per CPU second", strings.ToUpper(command), pipeline), ratio, atLeast(0.6),
				"CPU %.1f µs of %.1f µs", 1000*got.cpu, 1000*ref.cpu)
		}
	}
}

// kvServer is a server that redis-benchmark can reach.
type kvServer struct {
	pid                        int
	host, port, user, password string
	metrics                    string // address of profiles; empty for Redis
}

// load runs redis-benchmark. The rate of the result is that per CPU second.
func (s kvServer) load(t *testing.T, command string, pipeline int) result {
	t.Helper()
	requests := 50_000
	if pipeline > 1 {
		requests = 300_000
	}
	args := []string{
		"-h", s.host, "-p", s.port, "-c", "50", "-n", strconv.Itoa(requests), "-r", "100000",
		"-P", strconv.Itoa(pipeline), "-t", command, "--csv",
	}
	if s.user != "" {
		args = append(args, "--user", s.user, "-a", s.password)
	}
	before := process.CPUTime(t, s.pid)
	out, err := exec.Command("redis-benchmark", args...).Output()
	if err != nil {
		t.Fatalf("redis-benchmark (Debian package redis-tools): %v", err)
	}
	used := process.CPUTime(t, s.pid) - before
	rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatalf("redis-benchmark: %v: %s", err, out)
	}
	return result{rate: float64(requests) / used.Seconds(), cpu: used.Seconds() * 1000 / float64(requests)}
}

// client returns a client of the server.
func (s kvServer) client(t *testing.T) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: net.JoinHostPort(s.host, s.port), Username: s.user, Password: s.password,
		ReadTimeout: 5 * time.Minute,
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// rss returns the resident memory of the server in bytes.
func (s kvServer) rss(t *testing.T) int {
	t.Helper()
	return process.Memory(t, s.pid, "VmRSS")
}

// live returns the memory of what the server keeps, in bytes: without garbage, which Redis has not.
func (s kvServer) live(t *testing.T) int {
	t.Helper()
	if s.metrics == "" {
		return s.rss(t)
	}
	res, err := client.Get("http://" + s.metrics + "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("# HeapAlloc = "))
	var n int
	if _, err := fmt.Sscan(string(text), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// startRedis starts redis-server with an append-only file that is synced before replies.
func startRedis(t *testing.T, args ...string) kvServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close() // redis-server takes its port
	server := exec.Command("redis-server", append([]string{
		"--port", port, "--bind", host, "--dir", t.TempDir(), "--save", "",
		"--appendonly", "yes", "--appendfsync", "always",
	}, args...)...)
	if err := server.Start(); err != nil {
		t.Fatalf("redis-server (Debian package redis-server): %v", err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // returns that it was killed
	})
	s := kvServer{pid: server.Process.Pid, host: host, port: port}
	c := s.client(t)
	waittest.True(t, "redis-server to start", func() bool { return c.Ping(t.Context()).Err() == nil })
	return s
}

// newKVStore starts an installation with one embedded store.
func newKVStore(t *testing.T) kvServer {
	t.Helper()
	s := process.New(t, "sqlite", "--metrics-listen", porttest.Address(porttest.Free(t)))
	store := begin(t, s).kvStore()
	store.metrics = s.Args[1]
	return store
}

// kvStore creates an embedded store.
func (in *installation) kvStore() kvServer {
	in.t.Helper()
	var made struct{ Created []struct{ URL string } }
	in.call("POST", "/resource/"+in.orgID+"/local",
		map[string]any{"resources": []any{map[string]any{"type": "kv", "name": "bench"}}}, &made)
	return in.kvServer(made.Created[0].URL)
}

// kvServer returns the server of the URL of a store.
func (in *installation) kvServer(address string) kvServer {
	in.t.Helper()
	u, err := url.Parse(address)
	in.Must(err)
	password, _ := u.User.Password()
	return kvServer{pid: in.pid, host: u.Hostname(), port: u.Port(), user: u.User.Username(), password: password}
}
