package operations

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"steward/e2e/installation"
	"steward/internal/certificate/certtest"
	"steward/internal/waittest"
)

// stallingConn is a connection whose client stops reading.
type stallingConn struct {
	net.Conn
	stalled atomic.Bool
	closed  chan struct{}
}

// Read reads until the client stalls, and then waits for the end of the test.
func (c *stallingConn) Read(p []byte) (int, error) {
	if c.stalled.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return c.Conn.Read(p)
}

// TestStalledHTTP2ConnectionIsClosed has a client of HTTP/2 that takes nothing: its tail must end, though
// all its frames share the connection.
func TestStalledHTTP2ConnectionIsClosed(t *testing.T) {
	ca := certtest.NewCA(t)
	s := startWithFiles(t, ca, t.TempDir(), "--metrics-listen", "127.0.0.1:0")
	h := s.NewHook("orders")
	conn := &stallingConn{closed: make(chan struct{})}
	transport := &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: ca.Pool},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			conn.Conn = c
			return conn, c.(*net.TCPConn).SetReadBuffer(4096)
		},
	}
	request, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/webhook/tail", nil)
	s.Must(err)
	request.Header.Set("Authorization", "Bearer "+s.Key)
	res, err := (&http.Client{Transport: transport}).Do(request)
	s.Must(err)
	defer func() {
		close(conn.closed)
		_ = conn.Close()
		_ = res.Body.Close()
	}()
	if res.Proto != "HTTP/2.0" {
		t.Fatalf("the tail is %s", res.Proto)
	}
	conn.stalled.Store(true)
	tails := func() string {
		res, err := installation.Client.Get("http://" + s.Addresses().Listen["metrics"] + "/metrics")
		s.Must(err)
		got, err := installation.ReadResponse(t, res)
		s.Must(err)
		_, rest, _ := strings.Cut(string(got.Body), "\nsteward_webhook_open_tails ")
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	waittest.True(t, "the tail", func() bool { return tails() == "1" })
	for range 200 {
		s.Ingest(h, strings.Repeat("x", 60_000))
	}
	waittest.True(t, "the end of the tail", func() bool { return tails() == "0" })
}
