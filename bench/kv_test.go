//go:build bench

package bench

import (
	"context"
	"encoding/csv"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/resource/embedkv"
	"steward/internal/waittest"
)

// TestKV compares SET and GET of an embedded store with redis-server, by redis-benchmark with 50
// clients and 100,000 keys. The engine runs in this process: the rest of Steward has no part in its
// requests.
func TestKV(t *testing.T) {
	store := newStore(t)
	always := startRedis(t, "always")
	everysec := startRedis(t, "everysec")
	kvReport(t, "kv: SET, 50 clients, to appendfsync always", "set", always, store, atLeast(0.5))
	kvReport(t, "kv: GET, 50 clients, to appendfsync everysec", "get", everysec, store, atLeast(0.25))
	kvReport(t, "kv: SET, 50 clients, to appendfsync everysec", "set", everysec, store, goal{})
}

func kvReport(t *testing.T, what, command string, reference, store kvServer, g goal) {
	t.Helper()
	ratio, ref, got := compare(5,
		func() result { return reference.measure(t, command) },
		func() result { return store.measure(t, command) })
	report(what, ratio, g, "%.0f/s of %.0f/s", got.rate, ref.rate)
}

// kvServer is a server that redis-benchmark can reach.
type kvServer struct{ host, port, user, password string }

// kvRequests is the number of requests in a round.
const kvRequests = 50_000

// measure runs redis-benchmark.
func (s kvServer) measure(t *testing.T, command string) result {
	t.Helper()
	args := []string{"-h", s.host, "-p", s.port, "-c", "50", "-n", strconv.Itoa(kvRequests), "-r", "100000", "-t", command, "--csv"}
	if s.user != "" {
		args = append(args, "--user", s.user, "-a", s.password)
	}
	out, err := exec.Command("redis-benchmark", args...).Output()
	if err != nil {
		t.Fatalf("redis-benchmark (Debian package redis-tools): %v", err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatalf("redis-benchmark: %v: %s", err, out)
	}
	rate, err := strconv.ParseFloat(rows[1][1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return result{rate: rate}
}

// startRedis starts redis-server with an append-only file.
func startRedis(t *testing.T, fsync string) kvServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	_ = listener.Close() // redis-server takes its port
	server := exec.Command("redis-server", "--port", port, "--bind", host, "--dir", t.TempDir(), "--save", "",
		"--appendonly", "yes", "--appendfsync", fsync)
	if err := server.Start(); err != nil {
		t.Fatalf("redis-server (Debian package redis-server): %v", err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // returns that it was killed
	})
	c := redis.NewClient(&redis.Options{Addr: net.JoinHostPort(host, port)})
	defer func() { _ = c.Close() }()
	waittest.True(t, "redis-server to start", func() bool { return c.Ping(t.Context()).Err() == nil })
	return kvServer{host: host, port: port}
}

// newStore serves one embedded store.
func newStore(t *testing.T) kvServer {
	t.Helper()
	p := &resource.Provisioned{ID: id.New(id.KVStore), Type: resource.KV, Node: "local", Password: id.Secret(43)}
	engine := &embedkv.Engine{
		Dir: t.TempDir(), Node: "local", Now: time.Now, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		ByID: func(context.Context, string) (*resource.Provisioned, error) { return p, nil },
	}
	if err := engine.Open(); err != nil {
		t.Fatal(err)
	}
	if err := engine.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := engine.Serve(listener); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	t.Cleanup(func() { _ = engine.Close(context.Background()) })
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	return kvServer{host, port, p.ID, p.Password}
}
