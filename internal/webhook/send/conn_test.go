package send

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"steward/internal/waittest"
)

// surplus answers the first request of each connection, sends bytes that nobody asked for, and
// answers nothing else on that connection.
type surplus struct {
	answer string
	stray  string
	joined bool // the stray bytes are in the segment of the answer

	sent     chan struct{} // receives once everything was sent
	mu       sync.Mutex
	answered map[string]bool // by delivery
}

func newSurplus(answer, stray string, joined bool) *surplus {
	return &surplus{answer: answer, stray: stray, joined: joined, sent: make(chan struct{}), answered: map[string]bool{}}
}

func (h *surplus) serve(s *rawServer, c net.Conn, in *bufio.Reader) {
	delivery, ok := s.read(in)
	if !ok {
		return
	}
	h.mu.Lock()
	h.answered[delivery] = true
	h.mu.Unlock()
	if h.joined {
		_, _ = io.WriteString(c, h.answer+h.stray)
	} else {
		_, _ = io.WriteString(c, h.answer)
		_, _ = io.WriteString(c, h.stray)
	}
	h.sent <- struct{}{}
	s.read(in)
}

// TestStrayBytesAreNoResponse sends to servers that answer too much. A delivery may succeed only if
// it was answered.
func TestStrayBytesAreNoResponse(t *testing.T) {
	const withBody = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
	for name, h := range map[string]*surplus{
		"empty, one segment":    newSurplus(accepted, accepted, true),
		"empty, two segments":   newSurplus(accepted, accepted, false),
		"body, one segment":     newSurplus(withBody, withBody, true),
		"body, two segments":    newSurplus(withBody, withBody, false),
		"chunked, one segment":  newSurplus(chunked, accepted, true),
		"chunked, two segments": newSurplus(chunked, accepted, false),
		"several responses":     newSurplus(accepted, accepted+accepted+accepted, true),
	} {
		t.Run(name, func(t *testing.T) { h.check(t, newClient(t), newRawServer(t, h.serve)) })
	}
}

func TestStrayBytesOverTLSAreNoResponse(t *testing.T) {
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	defer certified.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates})
	must(t, err)
	h := newSurplus(accepted, accepted, false)
	server := startRawServer(t, "https://", listener, h.serve)
	client := newClient(t)
	client.transport.TLSClientConfig = certified.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	h.check(t, client, server)
}

// check sends many deliveries one after the other, each as soon as the server has sent everything
// for the one before.
func (h *surplus) check(t *testing.T, client *Client, server *rawServer) {
	for kind, r := range replayable(server.url) {
		for i := range 100 {
			r.DeliveryID = fmt.Sprintf("whdv_%s_%d", kind, i)
			result := client.Send(t.Context(), r)
			if result.Error != "" || !h.hasAnswered(r.DeliveryID) {
				t.Fatalf("%s: delivery %d: error %q, answered %t", kind, i, result.Error, h.hasAnswered(r.DeliveryID))
			}
			waittest.Receive(t, "stray bytes", h.sent)
		}
	}
}

func (h *surplus) hasAnswered(delivery string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answered[delivery]
}

// vanishing keeps connections open until enough have sent a request; from then on it reads requests
// and closes.
type vanishing struct {
	warm  sync.WaitGroup
	reset bool // closes with RST instead of FIN
}

func (h *vanishing) serve(s *rawServer, c net.Conn, in *bufio.Reader) {
	if s.connections() > idleConns {
		s.read(in)
		return
	}
	s.read(in)
	h.warm.Done()
	h.warm.Wait()
	_, _ = io.WriteString(c, accepted)
	s.read(in)
	if h.reset {
		_ = c.(*net.TCPConn).SetLinger(0)
	}
}

const idleConns = 12

// TestAttemptIsSentTwiceAtMost has many idle connections to a server that reads each request and
// closes the connection.
func TestAttemptIsSentTwiceAtMost(t *testing.T) {
	for _, reset := range []bool{false, true} {
		for name, r := range replayable("") {
			t.Run(fmt.Sprintf("%s, reset %t", name, reset), func(t *testing.T) {
				h := &vanishing{reset: reset}
				h.warm.Add(idleConns)
				server := newRawServer(t, h.serve)
				client := newClient(t)
				r.URL = server.url
				warmUp(t, client, r)
				r.DeliveryID = "whdv_y"
				result := client.Send(t.Context(), r)
				if n := server.received("whdv_y"); n < 1 || n > maxSends {
					t.Errorf("the server received the attempt %d times", n)
				}
				if result.Error == "" || result.Response != nil {
					t.Errorf("result %+v", result)
				}
			})
		}
	}
}

// warmUp makes idle connections.
func warmUp(t *testing.T, client *Client, r Request) {
	var sending sync.WaitGroup
	for range idleConns {
		sending.Go(func() {
			if result := client.Send(t.Context(), r); result.Error != "" {
				t.Error(result.Error)
			}
		})
	}
	sending.Wait()
}

// TestClosedIdleConnectionIsReplaced has the server close each connection after its answer, without
// saying so. Every delivery arrives once, over a new connection.
func TestClosedIdleConnectionIsReplaced(t *testing.T) {
	server := newRawServer(t, answering(accepted, true))
	client := newClient(t)
	for i := range 50 {
		r := newPost(server.url)
		r.DeliveryID = fmt.Sprintf("whdv_%d", i)
		if result := client.Send(t.Context(), r); result.Error != "" {
			t.Fatal(result.Error)
		}
		if n := server.received(r.DeliveryID); n != 1 {
			t.Errorf("received %d times", n)
		}
		waittest.True(t, "closed connection", func() bool { return server.closed() == i+1 })
	}
}
