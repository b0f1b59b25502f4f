package node

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"steward/internal/budget"
	"steward/internal/errs"
	"steward/internal/seal"
)

const (
	// Protocol is the protocol that Dial upgrades a connection to.
	Protocol = "steward-node"
	// refusalHeader says why a token was refused.
	refusalHeader = "Steward-Node-Refusal"
	// headerTimeout limits how long a request may take to arrive, without its body. keepAlive limits how
	// long an idle connection stays open.
	headerTimeout = 5 * time.Second
	keepAlive     = time.Minute
	// A refused request's connection stays open for refusalTimeout, so that the sender can read why.
	refusalTimeout = time.Second
	// maxUnverified caps the connections that have not shown a token.
	maxUnverified = 512
)

// Server takes requests from other nodes. Do not change its exported fields after Serve.
type Server struct {
	Directory *Directory
	Ring      *seal.Ring
	// Handler serves requests with a valid token. It must not pass them on. It must read a body to the end
	// before using it: only the last read fails if this is not the body that was sent.
	Handler http.Handler

	verifier   verifier
	unverified *budget.Pool
	http       http.Server
}

// Open prepares the server.
func (s *Server) Open() {
	log := s.Directory.Log
	s.verifier = verifier{ring: s.Ring, now: s.Directory.Now, narrow: s.Directory.narrow}
	s.unverified = budget.NewPool(maxUnverified, 16)
	s.http = http.Server{
		Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: headerTimeout, IdleTimeout: keepAlive, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
}

// Serve serves a listener until Close.
func (s *Server) Serve(listener net.Listener) error {
	err := s.http.Serve(&limited{Listener: listener, pool: s.unverified})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Close waits for requests in flight until ctx ends, and closes all connections that are not upgraded.
func (s *Server) Close(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return s.http.Close()
	}
	return nil
}

// serve serves a request if its token is valid.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	digest, err := s.verifier.verify(r.Context(), r.Header.Get(tokenHeader), targetOf(r, s.Directory.Self))
	if err != nil {
		refuse(w, err)
		return
	}
	if digest != "" {
		r.Body = &digestedBody{ReadCloser: r.Body, read: sha256.New(), want: digest}
	}
	if c, ok := r.Context().Value(connKey{}).(*unverified); ok {
		c.release()
	}
	r.RemoteAddr = r.Header.Get(clientHeader)
	r.Header.Del(tokenHeader)
	s.Handler.ServeHTTP(w, r)
}

// digestedBody fails at the end of the body if its digest differs.
type digestedBody struct {
	io.ReadCloser
	read hash.Hash
	want string
}

func (b *digestedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Write(p[:n])
	if errors.Is(err, io.EOF) && encode(b.read.Sum(nil)) != b.want {
		return n, errBody
	}
	return n, err
}

// refuse answers a request whose token is invalid and closes its connection. It does not wait for the body.
func refuse(w http.ResponseWriter, reason error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusalTimeout)) // fails on closed connections
	w.Header().Set(refusalHeader, reason.Error())
	w.Header().Set("Connection", "close")
	http.Error(w, reason.Error(), http.StatusUnauthorized)
}

type connKey struct{}

// limited closes new connections from addresses that already have too many without a token.
type limited struct {
	net.Listener
	pool *budget.Pool
}

// Accept returns the next connection.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		slot := l.pool.Charge(budget.Address(c.RemoteAddr().String()), "")
		if slot.Take(1) {
			return &unverified{Conn: c, release: sync.OnceFunc(slot.Release)}, nil
		}
		_ = c.Close()
	}
}

// unverified is a connection that has not shown a token until release is called.
type unverified struct {
	net.Conn
	release func()
}

// Close closes the connection.
func (c *unverified) Close() error {
	c.release()
	return c.Conn.Close()
}

// Upgrade answers a request from Dial and returns its connection, whose remote address is the client's. It
// answers any other request with an error, and returns an error.
func Upgrade(w http.ResponseWriter, r *http.Request) (net.Conn, error) {
	if r.Header.Get("Upgrade") != Protocol {
		http.Error(w, "expected an upgrade", http.StatusUpgradeRequired)
		return nil, errors.New("the request is no upgrade")
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "the connection cannot be upgraded", http.StatusInternalServerError)
		return nil, err
	}
	if err := accept(conn, buffered); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &upgraded{Conn: conn, remote: remote(r.RemoteAddr)}, nil
}

// accept tells the other node that its connection is upgraded.
func accept(conn net.Conn, buffered *bufio.ReadWriter) error {
	if buffered.Reader.Buffered() > 0 {
		return errors.New("the node has sent more than a request")
	}
	if err := conn.SetDeadline(time.Now().Add(upgradeTimeout)); err != nil {
		return err
	}
	const answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + Protocol + "\r\n\r\n"
	if _, err := conn.Write([]byte(answer)); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// upgraded is a connection on behalf of another node's client.
type upgraded struct {
	net.Conn
	remote remote
}

// RemoteAddr returns the client's address.
func (u *upgraded) RemoteAddr() net.Addr { return u.remote }

// remote is an address as the other node wrote it.
type remote string

// Network returns tcp.
func (remote) Network() string { return "tcp" }

func (r remote) String() string { return string(r) }

// Answer writes the result for a Call. It logs errors that clients may not see.
func (s *Server) Answer(w http.ResponseWriter, r *http.Request, value any, err error) {
	status := http.StatusOK
	if err != nil {
		status = http.StatusUnprocessableEntity
		var known *errs.Error
		if !errors.As(err, &known) {
			s.Directory.Log.Error("a request of another replica failed", "path", r.URL.Path, "error", err)
			known = errs.New(errs.Internal, "internal error of the other replica")
		}
		shown := *known
		shown.Cause = nil
		value = shown
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // fails if the other node has gone
}
