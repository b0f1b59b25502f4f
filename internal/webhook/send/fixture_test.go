package send

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

const (
	accepted = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

	// noTimeout is longer than any test takes.
	noTimeout = 5 * time.Minute
)

func now() time.Time { return time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newClient returns a client that may connect to loopback addresses.
func newClient(t *testing.T) *Client {
	c := New(Egress{Loopback: true}, now)
	t.Cleanup(c.Close)
	return c
}

func newPost(url string) Request {
	return Request{
		Method: "POST", URL: url, Body: []byte("b"), ReceiptID: "whrc_x", DeliveryID: "whdv_x",
		Signer: NewSigner([]byte("key")), Timeout: noTimeout,
	}
}

// replayable are requests that the transport treats differently when a connection breaks.
func replayable(url string) map[string]Request {
	all := map[string]Request{"POST": newPost(url)}
	for _, key := range []string{"idempotency-key", "x-idempotency-key"} {
		r := newPost(url)
		r.Received = []Field{{key, "1"}}
		all["POST with "+key] = r
	}
	get := newPost(url)
	get.Method = "GET"
	get.Body = nil
	all["GET"] = get
	return all
}

// rawServer accepts TCP connections and runs serve for each, with a reader of it. It closes them
// when serve returns.
type rawServer struct {
	url string

	mu       sync.Mutex
	conns    int
	ended    int            // how many of conns were closed
	requests map[string]int // by delivery
}

func newRawServer(t *testing.T, serve func(s *rawServer, c net.Conn, in *bufio.Reader)) *rawServer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return startRawServer(t, "http://", listener, serve)
}

func startRawServer(
	t *testing.T, scheme string, listener net.Listener, serve func(s *rawServer, c net.Conn, in *bufio.Reader),
) *rawServer {
	s := &rawServer{url: scheme + listener.Addr().String(), requests: map[string]int{}}
	var running sync.WaitGroup
	done := make(chan struct{})
	t.Cleanup(func() {
		listener.Close()
		close(done)
		running.Wait()
	})
	running.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns++
			s.mu.Unlock()
			running.Go(func() { <-done; c.Close() })
			running.Go(func() {
				serve(s, c, bufio.NewReader(c))
				c.Close()
				s.mu.Lock()
				s.ended++
				s.mu.Unlock()
			})
		}
	})
	return s
}

// read reads a whole request and returns the id of its delivery. It reports false at the end of the
// connection.
func (s *rawServer) read(in *bufio.Reader) (delivery string, ok bool) {
	r, err := http.ReadRequest(in)
	if err != nil {
		return "", false
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return "", false
	}
	delivery = r.Header.Get("Steward-Delivery")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[delivery]++
	return delivery, true
}

func (s *rawServer) received(delivery string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[delivery]
}

func (s *rawServer) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

func (s *rawServer) closed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// answering answers every request with the same bytes, and then closes the connection if told so.
func answering(answer string, thenClose bool) func(*rawServer, net.Conn, *bufio.Reader) {
	return func(s *rawServer, c net.Conn, in *bufio.Reader) {
		for {
			if _, ok := s.read(in); !ok {
				return
			}
			if _, err := io.WriteString(c, answer); err != nil || thenClose {
				return
			}
		}
	}
}
