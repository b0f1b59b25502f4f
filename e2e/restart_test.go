package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/waittest"
)

// TestStoppingProcessServesOnAllListeners sends SIGTERM to a process: it is not ready, and serves new
// connections until the drain delay ends, which a second signal does.
func TestStoppingProcessServesOnAllListeners(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite", "--drain-delay", "5m", "--metrics-listen", "127.0.0.1:0")
	listen := s.Addresses().Listen
	s.Must(s.Cmd.Process.Signal(syscall.SIGTERM))
	waittest.True(t, "the process to be not ready", func() bool { return s.Call("GET", "/readyz", nil).Status == 503 })
	s.Call("POST", "/cli/project", object{"name": "late"}).Want(201)
	for name, want := range map[string]bool{"api": true, "s3": true, "metrics": false} {
		res, err := installation.Client.Get("http://" + listen[name] + "/")
		s.Must(err)
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.Close != want {
			t.Errorf("%s: status %d, closes its connection: %v", name, res.StatusCode, res.Close)
		}
	}
	conn, err := net.Dial("tcp", listen["kv"])
	s.Must(err)
	_, err = io.WriteString(conn, "PING\r\n")
	s.Must(err)
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Errorf("the Redis protocol: %q, %v", line, err)
	}
	s.Must(conn.Close())
	s.Must(s.Cmd.Process.Signal(syscall.SIGTERM))
	s.Wait()
}

// TestRollingRestartFailsNoRequest restarts two replicas in turn behind a balancer, with the default
// drain delay, while clients send requests all the time.
func TestRollingRestartFailsNoRequest(t *testing.T) {
	t.Parallel()
	one := installation.Start(t, "postgres")
	two := one.Replica()
	b := newBalancer(t, one.URL, two.URL)
	via := &installation.Steward{Steward: &process.Steward{T: t, URL: b.URL}, T: t, Key: one.Key}
	var served, failed atomic.Int64
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := served.Add(1)
				r, err := via.Try("POST", "/cli/project", object{"name": fmt.Sprint("project ", n)})
				if err != nil || r.Status != 201 {
					failed.Add(1)
					t.Errorf("request %d: %+v, %v", n, r, err)
				}
			}
		})
	}
	for i, s := range []*installation.Steward{one, two} {
		waitMore(t, &served, 50)
		s.Drain()
		s.Start()
		b.replace(i, s.URL)
	}
	waitMore(t, &served, 50)
	close(stop)
	clients.Wait()
	t.Logf("%d requests, of which %d failed", served.Load(), failed.Load())
}

// waitMore waits until a counter has grown by n.
func waitMore(t *testing.T, counter *atomic.Int64, n int64) {
	t.Helper()
	want := counter.Load() + n
	waittest.Until(t, "more requests", func() (int64, bool) { return counter.Load(), counter.Load() >= want })
}

// balancer is a reverse proxy that sends requests to backends in turn, if their last check said that
// they are ready.
type balancer struct {
	*httptest.Server
	mu       sync.Mutex
	backends []*url.URL
	ready    []bool
	next     int
}

// checkEvery is how often the balancer checks its backends, as it may be configured in a real one.
const checkEvery = 200 * time.Millisecond

func newBalancer(t *testing.T, backends ...string) *balancer {
	b := &balancer{backends: make([]*url.URL, len(backends)), ready: make([]bool, len(backends))}
	for i, backend := range backends {
		b.replace(i, backend)
	}
	b.Server = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(b.pick()) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 10},
	})
	stop := make(chan struct{})
	var checking sync.WaitGroup
	for i := range backends {
		checking.Go(func() { b.check(i, stop) })
	}
	t.Cleanup(func() {
		close(stop)
		checking.Wait()
		b.Close()
	})
	return b
}

// replace sets a backend, which is ready after its next check.
func (b *balancer) replace(i int, backend string) {
	u, err := url.Parse(backend)
	if err != nil {
		panic(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends[i] = u
	b.ready[i] = b.Server == nil // at the start, all are
}

func (b *balancer) pick() *url.URL {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.backends {
		b.next = (b.next + 1) % len(b.backends)
		if b.ready[b.next] {
			break
		}
	}
	return b.backends[b.next]
}

func (b *balancer) check(i int, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(checkEvery):
		}
		b.mu.Lock()
		backend := b.backends[i]
		b.mu.Unlock()
		res, err := installation.Client.Get(backend.String() + "/readyz")
		ready := err == nil && res.StatusCode == 200
		if err == nil {
			_ = res.Body.Close()
		}
		b.mu.Lock()
		if b.backends[i] == backend {
			b.ready[i] = ready
		}
		b.mu.Unlock()
	}
}
