package webhook

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// crude answers every request with the same bytes, and closes the connection where that is told.
type crude struct {
	listener net.Listener
	answer   string
	close    bool
	conns    atomic.Int64
	requests atomic.Int64
}

func newCrude(t *testing.T, answer string, close bool) *crude {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	c := &crude{listener: listener, answer: answer, close: close}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c.conns.Add(1)
			go c.serve(conn)
		}
	}()
	return c
}

func (c *crude) url() string { return "http://" + c.listener.Addr().String() }

func (c *crude) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		io.Copy(io.Discard, r.Body)
		c.requests.Add(1)
		if _, err := io.WriteString(conn, c.answer); err != nil || c.close {
			return
		}
	}
}

// TestWiresUnderstandWhatTheTransportDoes sends to crude servers, over the transport and over a wire, and compares what came of it.
func TestWiresUnderstandWhatTheTransportDoes(t *testing.T) {
	ok := "HTTP/1.1 200 OK\r\n"
	for name, c := range map[string]struct {
		answer string
		close  bool
		conns  int64 // how many connections three deliveries take over wires
	}{
		"length":         {ok + "Content-Length: 2\r\nX-A: 1\r\nX-A: 2\r\n\r\nok", false, 1},
		"empty":          {"HTTP/1.1 204 No Content\r\n\r\n", false, 1},
		"chunks":         {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false, 1},
		"until the end":  {ok + "\r\nok", true, 3},
		"asked to close": {ok + "Connection: close\r\nContent-Length: 2\r\n\r\nok", false, 3},
		"hints before": {
			"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nok", false, 1,
		},
		"retry later":      {"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", false, 1},
		"gone":             {"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n", false, 1},
		"elsewhere":        {"HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", false, 1},
		"more than said":   {ok + "Content-Length: 2\r\n\r\nok and more", false, 3},
		"less than said":   {ok + "Content-Length: 20\r\n\r\nok", true, 3},
		"large":            {ok + "Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000), false, 1},
		"far too large":    {ok + "Content-Length: 1000000\r\n\r\n" + strings.Repeat("x", 1_000_000), false, 3},
		"no HTTP":          {"SSH-2.0-OpenSSH\r\n\r\n", false, 3},
		"endless headers":  {ok + "X: " + strings.Repeat("x", 2*keptHeaders) + "\r\n\r\n", false, 3},
		"two lengths":      {ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok", false, 3},
		"another protocol": {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			server := newCrude(t, c.answer, c.close)
			s := NewSender(Egress{Loopback: true}, newClock)
			defer s.Close()
			want := s.Send(t.Context(), attemptTo(t, server.url()))
			s.transport.CloseIdleConnections()
			speaks(t, s, server.url())
			before := server.conns.Load()
			for range 3 {
				got := s.Send(t.Context(), attemptTo(t, server.url()))
				if (got.Error == "") != (want.Error == "") || got.Gone != want.Gone || got.RetryAfter != want.RetryAfter {
					t.Errorf("got %+v, want %+v", got, want)
				}
				if text(t, got.Response) != text(t, want.Response) {
					t.Errorf("got %s, want %s", text(t, got.Response), text(t, want.Response))
				}
			}
			if n := server.conns.Load() - before; n != c.conns {
				t.Errorf("%d connections, want %d", n, c.conns)
			}
		})
	}
}

// speaks has a sender know that HTTP/1.1 is spoken at a URL.
func speaks(t *testing.T, s *HTTPSender, text string) {
	u, err := url.Parse(text)
	must(t, err)
	s.wires.learn(text, u, &http.Response{ProtoMajor: 1, ProtoMinor: 1})
}

// text gives an answer without how long it took.
func text(t *testing.T, a *Answer) string {
	if a == nil {
		return "nothing"
	}
	r := responseOf(t, a)
	r.DurationMS = 0
	return fmt.Sprint(r)
}

// TestWireThatWasClosed has the server close connections while they rest. Each delivery arrives once, over a new connection.
func TestWireThatWasClosed(t *testing.T) {
	server := newCrude(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true) // closes although it did not say so
	s := NewSender(Egress{Loopback: true}, newClock)
	defer s.Close()
	speaks(t, s, server.url())
	for n := range int64(5) {
		if out := s.Send(t.Context(), attemptTo(t, server.url())); out.Error != "" {
			t.Fatal(out.Error)
		}
		if got := server.requests.Load(); got != n+1 {
			t.Errorf("%d requests for %d deliveries", got, n+1)
		}
	}
}

// TestAnswerThatBreaksOff has a wire that rested get the beginning of an answer: the request has arrived, and is not sent again.
func TestAnswerThatBreaksOff(t *testing.T) {
	requests := 0
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests++; requests == 1 {
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			io.WriteString(conn, "HTTP/1.1 200")
			conn.Close()
		}
	}))
	defer target.Close()
	s := NewSender(Egress{Loopback: true}, newClock)
	defer s.Close()
	speaks(t, s, target.URL)
	if out := s.Send(t.Context(), attemptTo(t, target.URL)); out.Error != "" || s.wires.count != 1 {
		t.Fatalf("outcome %+v, %d wires rest", out, s.wires.count)
	}
	out := s.Send(t.Context(), attemptTo(t, target.URL))
	if target.Close(); !strings.HasPrefix(out.Error, "the destination could not be reached") || requests != 2 {
		t.Errorf("outcome %+v after %d requests", out, requests)
	}
}

// TestWireThatHangs ends with the context, and the connection is not used again.
func TestWireThatHangs(t *testing.T) {
	server := newCrude(t, "", false)
	s := NewSender(Egress{Loopback: true}, newClock)
	defer s.Close()
	speaks(t, s, server.url())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if out := s.Send(ctx, attemptTo(t, server.url())); !strings.Contains(out.Error, "did not answer within") {
		t.Errorf("outcome %+v", out)
	}
	if len(s.wires.resting) != 0 || s.wires.count != 0 {
		t.Errorf("%d wires rest", s.wires.count)
	}
}

// TestAnswerThatHangs has the head of an answer come, and its body never: the delivery ends in time, by its status.
func TestAnswerThatHangs(t *testing.T) {
	server := newCrude(t, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", false)
	for name, known := range map[string]bool{"transport": false, "wire": true} {
		s := NewSender(Egress{Loopback: true}, newClock)
		if known {
			speaks(t, s, server.url())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		ended := make(chan Outcome, 1)
		go func() { ended <- s.Send(ctx, attemptTo(t, server.url())) }()
		select {
		case out := <-ended:
			if out.Error != "" || responseOf(t, out.Response).Body != "half" || s.wires.count != 0 {
				t.Errorf("%s: outcome %+v, %d wires rest", name, out, s.wires.count)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: it does not end", name)
		}
		cancel()
		s.Close()
	}
}

// TestWireOverTLS sends to a server that speaks HTTP/1.1 only: the second delivery goes over a wire, to a certificate that is checked.
func TestWireOverTLS(t *testing.T) {
	target := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.Proto)) }))
	defer target.Close()
	s := NewSender(Egress{Loopback: true}, newClock)
	defer s.Close()
	s.transport.TLSClientConfig = target.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	for range 3 {
		if out := s.Send(t.Context(), attemptTo(t, target.URL)); out.Error != "" || responseOf(t, out.Response).Body != "HTTP/1.1" {
			t.Fatalf("outcome %+v", out)
		}
	}
	if s.wires.count != 1 {
		t.Errorf("%d wires rest, want 1", s.wires.count)
	}
	stranger := NewSender(Egress{Loopback: true}, newClock)
	speaks(t, stranger, target.URL)
	if out := stranger.Send(t.Context(), attemptTo(t, target.URL)); !strings.Contains(out.Error, "certificate") {
		t.Errorf("outcome %+v", out)
	}
}

// TestWiresAreGuarded: an origin that is known is dialled past the same guard.
func TestWiresAreGuarded(t *testing.T) {
	server := newCrude(t, "", false)
	s := NewSender(Egress{}, newClock)
	speaks(t, s, server.url())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if out := s.Send(ctx, attemptTo(t, server.url())); !strings.HasPrefix(out.Error, errEgress.Error()) || server.conns.Load() != 0 {
		t.Errorf("outcome %+v, %d connections", out, server.conns.Load())
	}
}
