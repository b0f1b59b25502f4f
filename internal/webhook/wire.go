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

	"steward/internal/id"
)

const (
	// A wire that rests for longer than this is closed, or when there are too many.
	restFor        = 90 * time.Second
	mostResting    = 1000
	mostRestingFor = 100 // one origin
	// knownFor is how long a URL is taken to be served by HTTP/1.1 before it may show again what is spoken there.
	knownFor  = 10 * time.Minute
	mostKnown = 10_000

	handshakeWithin = 10 * time.Second
)

// wires are connections to destinations that speak HTTP/1.1. The goroutine of a delivery writes the request and reads the answer by
// itself, where net/http's transport hands both over to goroutines of the connection, which costs more than all else about a small
// delivery. What is difficult stays with net/http: it reads all answers that are not plain; and HTTP/2, large bodies and destinations that
// nobody has spoken to are left to its transport.
type wires struct {
	transport *http.Transport // whose settings are ours, too

	mu      sync.Mutex
	spoken  map[string]*address // by URL
	resting map[string][]*wire  // by origin
	count   int
}

// address is a URL that is known to be served by HTTP/1.1.
type address struct {
	origin, scheme, hostname, port string
	host, uri                      string // as a request names them
	since                          time.Time
}

func newAddress(u *url.URL) *address {
	at := &address{
		origin: u.Scheme + "://" + u.Host, scheme: u.Scheme, hostname: u.Hostname(), port: u.Port(), host: u.Host, uri: u.RequestURI(),
		since: time.Now(),
	}
	if at.port == "" {
		at.port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return at
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

	ctx  context.Context // whose end ends what goes on
	free func() bool     // ends that
}

// errSilent says that a connection ended before the first byte of an answer.
var errSilent = errors.New("the connection ended without an answer")

func newWires(transport *http.Transport) *wires {
	return &wires{transport: transport, spoken: map[string]*address{}, resting: map[string][]*wire{}}
}

// known gives the address of a URL that is known to be served by HTTP/1.1, else nil.
func (p *wires) known(url string) *address {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.spoken[url]
	if at == nil || time.Since(at.since) >= knownFor {
		return nil
	}
	return at
}

// learn notes what was spoken at a URL. Names of hosts that are not plain have another form on the network, which net/http knows.
func (p *wires) learn(text string, u *url.URL, resp *http.Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if resp.ProtoMajor != 1 || resp.ProtoMinor != 1 || strings.Trim(u.Host, plainHost) != "" {
		delete(p.spoken, text)
		return
	}
	if len(p.spoken) >= mostKnown {
		clear(p.spoken)
	}
	p.spoken[text] = newAddress(u)
}

// plainHost are the characters of hosts that are sent as they are.
const plainHost = id.Base62 + ".:-_[]"

// roundTrip sends a message and reads the head of its answer, whose body must be closed, all by a time. A connection that rested may have
// been closed by the other side meanwhile; then the message is sent again over the next one, and at last over a new one. Should the other
// side have got it before, it knows it by its webhook-id.
func (p *wires) roundTrip(ctx context.Context, by time.Time, at *address, m message) (reply, error) {
	for {
		w, err := p.take(ctx, by, at)
		if err != nil {
			return reply{}, err
		}
		_ = w.conn.SetDeadline(by)
		w.obey(ctx)
		got, err := p.exchange(w, at, m)
		if err == nil {
			return got, nil
		}
		w.close()
		if !w.rested || !errors.Is(err, errSilent) || ctx.Err() != nil || !time.Now().Before(by) {
			return reply{}, err
		}
	}
}

// exchange writes a message and reads the head of its answer.
func (p *wires) exchange(w *wire, at *address, m message) (reply, error) {
	sent := m.write(w.out, at.host, at.uri)
	got, last, err := w.answer(m.method, sent)
	got.body = &wireBody{ReadCloser: got.body, wire: w, pool: p, last: last || sent != nil}
	return got, err
}

// obey has the end of a context end whatever goes on. Deliveries share one, so that a wire that rested mostly obeys it already. Its
// deadline must be set before: it is over from then on.
func (w *wire) obey(ctx context.Context) {
	if w.ctx != ctx {
		if w.free != nil {
			w.free()
		}
		w.ctx, w.free = ctx, context.AfterFunc(ctx, w.cut)
	}
	if ctx.Err() != nil {
		w.cut()
	}
}

func (w *wire) cut() { _ = w.conn.SetDeadline(time.Unix(1, 0)) }

func (w *wire) close() {
	if w.free != nil {
		w.free()
	}
	w.conn.Close()
}

// ofHead has net/http expect an answer without a body.
var ofHead = &http.Request{Method: http.MethodHead}

// answer reads the head of an answer, also when the request could not be sent whole: who refuses it early says why. last says that no other
// answer follows on this wire.
func (w *wire) answer(method string, sent error) (got reply, last bool, err error) {
	w.left = keptHeaders
	if _, err := w.in.Peek(1); err != nil {
		return got, false, fmt.Errorf("%w: %w", errSilent, cmp.Or(sent, err))
	}
	there, _ := w.in.Peek(w.in.Buffered())
	if h, plain := readPlain(there); plain && method != http.MethodHead {
		_, _ = w.in.Discard(h.size) // it is there
		w.left = math.MaxInt64
		return reply{h.status, h.headers, &plainBody{w.in, h.length}}, false, nil
	}
	var to *http.Request
	if method == http.MethodHead {
		to = ofHead
	}
	resp, err := http.ReadResponse(w.in, to)
	for err == nil && resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
		resp, err = http.ReadResponse(w.in, to) // 1xx are hints on the way
	}
	w.left = math.MaxInt64
	if err != nil {
		return got, false, err
	}
	return replyOf(resp), resp.Close || resp.StatusCode < http.StatusOK, nil
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
	last  bool // no other answer follows
	ended bool
}

func (b *wireBody) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	b.ended = b.ended || err == io.EOF
	return n, err
}

func (b *wireBody) Close() error {
	// Bytes beyond an answer would be taken for the next one.
	if b.last || !b.ended || b.wire.in.Buffered() > 0 || b.wire.ctx.Err() != nil {
		b.wire.close()
	} else {
		b.pool.rest(b.wire)
	}
	return nil
}

// take gives a wire to an address: the one that rested last, else a new one.
func (p *wires) take(ctx context.Context, by time.Time, at *address) (*wire, error) {
	if w := p.wake(at.origin); w != nil {
		return w, nil
	}
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	conn, err := p.transport.DialContext(ctx, "tcp", net.JoinHostPort(at.hostname, at.port))
	if err == nil && at.scheme == "https" {
		conn, err = p.secure(ctx, conn, at.hostname)
	}
	if err != nil {
		return nil, err
	}
	w := &wire{origin: at.origin, conn: conn, out: bufio.NewWriter(conn)}
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
		w.close()
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
		w.close()
	}
}

// close closes the wires that rest.
func (p *wires) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, all := range p.resting {
		for _, w := range all {
			w.expiry.Stop()
			w.close()
		}
	}
	clear(p.resting)
	p.count = 0
}
