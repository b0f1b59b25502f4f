package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"steward/internal/errs"
)

// Refusals makes a server use the API's format when it answers requests that net/http cannot parse, for
// example because of a bad escape in the path or too many headers. net/http writes plain text to the
// connection and has no hook for it, so our connection replaces everything written between requests.
type Refusals struct {
	// Faces lists all faces except Bare.
	Faces []*Face
	Log   *slog.Logger
	// Done is called after each response, for logs and metrics.
	Done func(Served)
	// Handler returns the handler for a refused request. We only know the request's method. If Handler is
	// nil, the API's own format is used.
	Handler func(refused *errs.Error) http.Handler
}

// Attach sets a server's hooks, and returns the listener that the server must use.
func (f *Refusals) Attach(srv *http.Server, l net.Listener) net.Listener {
	next := srv.Handler
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	srv.ConnState = func(c net.Conn, state http.ConnState) {
		if c, ok := c.(*refusingConn); ok && state == http.StateIdle {
			c.head = nil
			c.serving.Store(false)
		}
	}
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*refusingConn); ok {
			c.serving.Store(true)
		}
		next.ServeHTTP(w, r)
	})
	return &refusingListener{Listener: l, refusals: f}
}

type connKey struct{}

type refusingListener struct {
	net.Listener
	refusals *Refusals
}

// Accept returns the next connection. A TLS connection must have completed its handshake.
func (l *refusingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if secure, ok := c.(*tls.Conn); ok && secure.ConnectionState().NegotiatedProtocol == "h2" {
		return c, nil // HTTP/2 has frames, and net/http must see the TLS connection
	}
	return &refusingConn{Conn: c, refusals: l.refusals}, nil
}

// refusingConn is a connection on which the server may refuse a request before it calls a handler.
type refusingConn struct {
	net.Conn
	refusals *Refusals
	// serving is true while a handler runs and until its response is written.
	serving atomic.Bool
	// head is the beginning of the request being read.
	head []byte
}

// maxTarget is how many bytes of a request we keep: enough for its method and its face's prefix.
const maxTarget = 32

// Read keeps the beginning of each request.
func (c *refusingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.serving.Load() && len(c.head) < maxTarget {
		c.head = append(c.head, p[:min(n, maxTarget-len(c.head))]...)
	}
	return n, err
}

// Write replaces net/http's output if no handler is running.
func (c *refusingConn) Write(p []byte) (int, error) {
	if c.serving.Load() {
		return c.Conn.Write(p)
	}
	err := parseRefusal(p)
	if err == nil {
		return c.Conn.Write(p)
	}
	if _, err := c.Conn.Write(c.refusals.response(c, err)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ReadFrom lets the connection send a file itself. It is only called while a handler runs.
func (c *refusingConn) ReadFrom(r io.Reader) (int64, error) {
	if direct, ok := c.Conn.(io.ReaderFrom); ok {
		return direct.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}

// CloseWrite lets the client read the response before the connection closes.
func (c *refusingConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// parseRefusal returns the error for a response from net/http, or nil if that is not a refusal. Its
// reasons are constants in net/http.
func parseRefusal(p []byte) *errs.Error {
	line, _, _ := bytes.Cut(p, []byte("\r\n"))
	status, ok := strings.CutPrefix(string(line), "HTTP/1.1 ")
	if !ok || !bytes.Contains(p, []byte("\r\nConnection: close\r\n")) {
		return nil
	}
	_, reason, _ := strings.Cut(status, ": ")
	switch {
	case strings.HasPrefix(status, "431"):
		return errs.New(errs.HeadersTooLarge, "the headers of the request are too large")
	case strings.HasPrefix(status, "417"):
		return errs.New(errs.ExpectationFailed, "the only expectation that is supported is 100-continue")
	case strings.HasPrefix(status, "501"):
		return errs.New(errs.Malformed, "the request cannot be read: unsupported transfer encoding")
	case reason != "":
		return errs.New(errs.Malformed, "the request cannot be read: %s", reason)
	}
	return errs.New(errs.Malformed, "the request cannot be read: its first line or a header is malformed; "+
		"special characters in the path must be percent-encoded")
}

// response returns the response to a refused request, as bytes for the connection.
func (f *Refusals) response(c *refusingConn, refused *errs.Error) []byte {
	method, target, _ := strings.Cut(string(c.head), " ")
	r := &http.Request{Method: method, URL: &url.URL{Path: "/"}, Header: http.Header{}, RemoteAddr: c.RemoteAddr().String()}
	r = r.WithContext(WithFace(context.Background(), f.faceOf(target)))
	w := &responseBuffer{header: http.Header{}}
	handler := Observe(f.Log, f.Done, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Fail(w, r, refused)
	}))
	if f.Handler != nil {
		handler = f.Handler(refused)
	}
	handler.ServeHTTP(w, r)
	res := http.Response{
		StatusCode: w.status, ProtoMajor: 1, ProtoMinor: 1, Header: w.header, ContentLength: int64(w.body.Len()), Close: true,
		Body: io.NopCloser(&w.body), Request: r, // HEAD's response has no body
	}
	var out bytes.Buffer
	_ = res.Write(&out) // a buffer never fails
	return out.Bytes()
}

// responseBuffer holds a response before it goes to a connection.
type responseBuffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *responseBuffer) Header() http.Header         { return b.header }
func (b *responseBuffer) WriteHeader(status int)      { b.status = status }
func (b *responseBuffer) Write(p []byte) (int, error) { return b.body.Write(p) }

func (f *Refusals) faceOf(target string) *Face {
	for _, face := range f.Faces {
		if strings.HasPrefix(target, face.Prefix+"/") {
			return face
		}
	}
	return Bare
}
