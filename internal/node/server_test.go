package node

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// pair is a client of node_a and a server that is node_b.
type pair struct {
	t      *testing.T
	clock  *clock
	client *Client
	server *Server
	addr   string
	served atomic.Int64 // requests that reached the handler
}

func newPair(t *testing.T, handler http.HandlerFunc) *pair {
	t.Helper()
	return newPairOn(t, dbtest.Open(t, db.SQLite), handler)
}

func newPairOn(t *testing.T, d *db.DB, handler http.HandlerFunc) *pair {
	t.Helper()
	c := newClock()
	p := &pair{t: t, clock: c}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p.addr = listener.Addr().String()
	there := newDirectory(d, c, "node_b", "rep_b")
	there.Self.Address = p.addr
	must(t, there.write(t.Context()))
	announce(t, there)
	p.server = &Server{Directory: there, Ring: newRing(t, 'k'), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.served.Add(1)
		handler(w, r)
	})}
	p.server.Open()
	ended := make(chan error, 1)
	go func() { ended <- p.server.Serve(listener) }()
	here := newDirectory(d, c, "node_a", "rep_a")
	must(t, here.write(t.Context()))
	announce(t, here)
	p.client = NewClient(here, newRing(t, 'k'))
	t.Cleanup(func() {
		p.client.Close()
		must(t, p.server.Close(context.Background()))
		must(t, <-ended)
	})
	return p
}

// answer answers Call with a value.
func (p *pair) answer(value any, err error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { p.server.Answer(w, r, value, err) }
}

// to is the target of a request for /x.
var to = target{node: "node_b", process: "rep_b", method: "POST", path: "/x"}

// send sends a request for /x with a token, and returns the status.
func (p *pair) send(token string) int {
	p.t.Helper()
	return p.sendTo("/x", body, token)
}

// sendTo sends a request with a token, and returns the status.
func (p *pair) sendTo(path, body, token string) int {
	p.t.Helper()
	r, err := http.NewRequest("POST", "http://"+p.addr+path, strings.NewReader(body))
	must(p.t, err)
	if token != "" {
		r.Header.Set(tokenHeader, token)
	}
	res, err := http.DefaultClient.Do(r)
	must(p.t, err)
	must(p.t, res.Body.Close())
	return res.StatusCode
}

// TestSlowConnectionsKeepNobodyOut has an address open connections without a request, as many as it can.
func TestSlowConnectionsKeepNobodyOut(t *testing.T) {
	p := newPair(t, nil)
	p.server.Handler = p.answer("pong", nil)
	slow := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	refused := 0
	for range 2 * maxUnverified {
		c, err := slow.Dial("tcp", p.addr)
		must(t, err)
		defer func() { _ = c.Close() }()
		if _, err := io.WriteString(c, "POST /x HTTP/1.1\r\n"); err != nil {
			refused++
		}
	}
	for range 3 {
		var got string
		if err := p.client.Call(t.Context(), "node_b", "/x", nil, &got); err != nil || got != "pong" {
			t.Errorf("a replica gets %q (%v)", got, err)
		}
		p.client.Close() // so that the next one connects
	}
	if u := p.server.unverified.Usage(); u.Refused == 0 {
		t.Errorf("none of the slow connections was refused: %+v, %d writes failed", u, refused)
	}
}

// TestRefusedConnectionIsClosed announces a body that never comes, and a request after the refused one.
func TestRefusedConnectionIsClosed(t *testing.T) {
	p := newPair(t, func(http.ResponseWriter, *http.Request) {})
	for _, request := range []string{
		"POST /x HTTP/1.1\r\nHost: b\r\nContent-Length: 10\r\n\r\n",
		"POST /x HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
		"POST /x HTTP/1.1\r\nHost: b\r\nContent-Length: 0\r\n\r\nPOST /x HTTP/1.1\r\n",
	} {
		c, err := net.Dial("tcp", p.addr)
		must(t, err)
		_, err = io.WriteString(c, request)
		must(t, err)
		must(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		if answer, err := io.ReadAll(c); err != nil || !bytes.Contains(answer, []byte(errToken.Error())) {
			t.Errorf("%q: %q (%v)", request, answer, err)
		}
		must(t, c.Close())
	}
	if n := p.served.Load(); n != 0 {
		t.Errorf("%d requests were served", n)
	}
}
