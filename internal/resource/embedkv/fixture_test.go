package embedkv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/resource"
)

// fixture is an engine that serves on a port of this machine, with rows in memory.
type fixture struct {
	*Engine
	t    testing.TB
	addr string

	mu   sync.Mutex
	rows map[string]*resource.Provisioned
}

// start starts an engine. change may change it before it is opened.
func start(t testing.TB, change func(*Engine)) *fixture {
	t.Helper()
	f := &fixture{t: t, rows: map[string]*resource.Provisioned{}}
	f.Engine = &Engine{
		Dir: t.TempDir(), Node: "local", Rows: f,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Now: time.Now,
	}
	if change != nil {
		change(f.Engine)
	}
	f.serve()
	return f
}

// serve opens the engine and serves until the end of the test or stop.
func (f *fixture) serve() {
	f.t.Helper()
	must(f.t, f.Open())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(f.t, err)
	f.addr = listener.Addr().String()
	f.URL = "redis://" + f.addr
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	ran := make(chan struct{})
	go func() { served <- f.Serve(listener) }()
	go func() { f.Run(ctx); close(ran) }()
	f.t.Cleanup(func() {
		cancel()
		<-ran
		must(f.t, f.Close(context.Background()))
		must(f.t, <-served)
	})
}

func (f *fixture) ByID(_ context.Context, id string) (*resource.Provisioned, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.rows[id]; p != nil {
		return p, nil
	}
	return nil, errs.Missing("key-value store", id)
}

func (f *fixture) ByPassword(_ context.Context, hash []byte) (*resource.Provisioned, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.rows {
		if sum := sha256.Sum256([]byte(p.Password)); bytes.Equal(sum[:], hash) {
			return p, nil
		}
	}
	return nil, errs.Missing("key-value store", "")
}

// put writes the row of a store.
func (f *fixture) put(p *resource.Provisioned) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows[p.ID] = p
}

// drop removes the row of a store.
func (f *fixture) drop(p *resource.Provisioned) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.rows, p.ID)
}

// create creates a store of org_a.
func (f *fixture) create() *resource.Provisioned {
	f.t.Helper()
	return f.createOf("org_a")
}

// createOf creates a store of an organization.
func (f *fixture) createOf(orgID string) *resource.Provisioned {
	f.t.Helper()
	p := &resource.Provisioned{
		ID: id.New(id.KVStore), Type: resource.KV, OrgID: orgID, Node: f.Node, State: resource.Active, Password: id.Secret(43),
	}
	f.put(p)
	must(f.t, f.Create(f.t.Context(), p))
	return p
}

// client returns a go-redis client of a store.
func (f *fixture) client(p *resource.Provisioned) *redis.Client {
	f.t.Helper()
	options, err := redis.ParseURL(f.Connection(p).URL)
	must(f.t, err)
	options.MaxRetries = -1
	options.ReadTimeout = 3 * time.Minute // for a busy machine
	c := redis.NewClient(options)
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

// cli runs redis-cli with the URL of a store and returns what it prints.
func (f *fixture) cli(p *resource.Provisioned, args ...string) string {
	f.t.Helper()
	out, err := exec.Command("redis-cli", append([]string{"--no-auth-warning", "-u", f.Connection(p).URL}, args...)...).CombinedOutput()
	if err != nil {
		f.t.Fatalf("redis-cli %v (Debian package redis-tools): %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
