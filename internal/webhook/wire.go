package webhook

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	// A wire that rests for longer than this is closed, or when there are too many.
	restFor        = 90 * time.Second
	mostResting    = 1000
	mostRestingFor = 100 // one origin
	// knownFor is how long an origin is taken to speak HTTP/1.1 before it may show again what it speaks.
	knownFor  = 10 * time.Minute
	mostKnown = 10_000

	handshakeWithin = 10 * time.Second
)

// wires are connections to origins that speak HTTP/1.1. The goroutine of a delivery writes the request and reads the answer by itself,
// where net/http's transport hands both over to goroutines of the connection, which costs more than all else about a small delivery. What
// is difficult stays with net/http: it writes requests and reads answers; and HTTP/2, large bodies and origins that nobody has spoken to
// are left to its transport.
type wires struct {
	transport *http.Transport // whose settings are ours, too

	mu      sync.Mutex
	known   map[string]time.Time // since when an origin is known to speak HTTP/1.1
	resting map[string][]*wire
	count   int
}

// wire is one connection, in the hands of one goroutine, or resting.
type wire struct {
	origin string
	conn   net.Conn
	in     *bufio.Reader
	out    *bufio.Writer
	left   int64 // how much may still be read
	rested bool
	expiry *time.Timer
}

// errSilent says that a connection ended before the first byte of an answer.
var errSilent = errors.New("the connection ended without an answer")

func newWires(transport *http.Transport) *wires {
	return &wires{transport: transport, known: map[string]time.Time{}, resting: map[string][]*wire{}}
}

func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

// speaks tells whether an origin is known to speak HTTP/1.1.
func (p *wires) speaks(origin string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, known := p.known[origin]
	return known && time.Since(since) < knownFor
}

// learn notes what an origin spoke. Names that are not ASCII have another form on the network, which net/http knows.
func (p *wires) learn(origin string, resp *http.Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if resp.ProtoMajor != 1 || resp.ProtoMinor != 1 || !ascii(origin) {
		delete(p.known, origin)
		return
	}
	if len(p.known) >= mostKnown {
		clear(p.known)
	}
	p.known[origin] = time.Now()
}

func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) < 0
}

// roundTrip sends a request and reads the head of its answer, whose body must be closed. A connection that rested may have been closed by
// the other side meanwhile; then the request is sent again over the next one, and at last over a new one. Should the other side have got
// it before, it knows it by its webhook-id.
func (p *wires) roundTrip(origin string, req *http.Request) (*http.Response, error) {
	for {
		w, err := p.take(req.Context(), origin, req.URL)
		if err != nil {
			return nil, err
		}
		resp, err := p.exchange(w, req)
		if err == nil {
			return resp, nil
		}
		w.conn.Close()
		if !w.rested || !errors.Is(err, errSilent) || req.Context().Err() != nil {
			return nil, err
		}
		if req.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
}

// exchange writes a request and reads the head of its answer. The end of the context ends whatever is going on.
func (p *wires) exchange(w *wire, req *http.Request) (*http.Response, error) {
	stop := context.AfterFunc(req.Context(), func() { _ = w.conn.SetDeadline(time.Unix(1, 0)) })
	sent := req.Write(w.out)
	if sent == nil {
		sent = w.out.Flush()
	}
	resp, err := w.answer(req, sent)
	if err != nil {
		stop()
		return nil, err
	}
	last := sent != nil || resp.Close || resp.StatusCode < http.StatusOK
	resp.Body = &wireBody{ReadCloser: resp.Body, wire: w, pool: p, stop: stop, last: last}
	return resp, nil
}

// answer reads the head of an answer, also when the request could not be sent whole: who refuses it early says why.
func (w *wire) answer(req *http.Request, sent error) (*http.Response, error) {
	w.left = keptHeaders
	if _, err := w.in.Peek(1); err != nil {
		return nil, fmt.Errorf("%w: %w", errSilent, cmp.Or(sent, err))
	}
	resp, err := http.ReadResponse(w.in, req)
	for err == nil && resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
		resp, err = http.ReadResponse(w.in, req) // 1xx are hints on the way
	}
	w.left = math.MaxInt64
	return resp, err
}

// Read reads from the connection within the limit.
func (w *wire) Read(b []byte) (int, error) {
	if w.left <= 0 {
		return 0, errors.New("the headers of the answer are too large")
	}
	n, err := w.conn.Read(b[:min(int64(len(b)), w.left)])
	w.left -= int64(n)
	return n, err
}

// wireBody is the body of an answer. Its Close lets the wire rest, if the answer was read to its end and another may follow.
type wireBody struct {
	io.ReadCloser
	wire  *wire
	pool  *wires
	stop  func() bool // false when the context has ended, and the connection with it
	last  bool        // no other answer follows
	ended bool
}

func (b *wireBody) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	b.ended = b.ended || err == io.EOF
	return n, err
}

func (b *wireBody) Close() error {
	// Bytes beyond an answer would be taken for the next one.
	if !b.stop() || b.last || !b.ended || b.wire.in.Buffered() > 0 {
		return b.wire.conn.Close()
	}
	b.pool.rest(b.wire)
	return nil
}

// take gives a wire to an origin: the one that rested last, else a new one.
func (p *wires) take(ctx context.Context, origin string, u *url.URL) (*wire, error) {
	if w := p.wake(origin); w != nil {
		return w, nil
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	conn, err := p.transport.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err == nil && u.Scheme == "https" {
		conn, err = p.secure(ctx, conn, u.Hostname())
	}
	if err != nil {
		return nil, err
	}
	w := &wire{origin: origin, conn: conn, out: bufio.NewWriter(conn)}
	w.in = bufio.NewReader(w)
	return w, nil
}

func (p *wires) secure(ctx context.Context, conn net.Conn, host string) (net.Conn, error) {
	config := &tls.Config{}
	if p.transport.TLSClientConfig != nil {
		config = p.transport.TLSClientConfig.Clone()
	}
	config.ServerName, config.NextProtos = cmp.Or(config.ServerName, host), []string{"http/1.1"}
	ctx, cancel := context.WithTimeout(ctx, handshakeWithin)
	defer cancel()
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}

func (p *wires) wake(origin string) *wire {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.resting[origin]
	if len(all) == 0 {
		return nil
	}
	w := all[len(all)-1]
	p.remove(w)
	w.expiry.Stop()
	return w
}

// rest keeps a wire for the next delivery.
func (p *wires) rest(w *wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count >= mostResting || len(p.resting[w.origin]) >= mostRestingFor {
		w.conn.Close()
		return
	}
	w.rested = true
	p.resting[w.origin] = append(p.resting[w.origin], w)
	p.count++
	if w.expiry == nil {
		w.expiry = time.AfterFunc(restFor, func() { p.expire(w) })
	} else {
		w.expiry.Reset(restFor)
	}
}

// remove takes a wire from the resting ones; it is false when it is not among them.
func (p *wires) remove(w *wire) bool {
	all := p.resting[w.origin]
	at := slices.Index(all, w)
	if at < 0 {
		return false
	}
	p.resting[w.origin] = slices.Delete(all, at, at+1)
	if len(all) == 1 {
		delete(p.resting, w.origin)
	}
	p.count--
	return true
}

func (p *wires) expire(w *wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.remove(w) {
		w.conn.Close()
	}
}

// close closes the wires that rest.
func (p *wires) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, all := range p.resting {
		for _, w := range all {
			w.expiry.Stop()
			w.conn.Close()
		}
	}
	clear(p.resting)
	p.count = 0
}
