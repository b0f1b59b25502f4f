package embedkv

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"steward/internal/budget"
	"steward/internal/redis"
)

// session is a client's connection. One goroutine reads requests, another sends replies.
type session struct {
	engine  *Engine
	net     net.Conn
	address string // owner for budgets
	began   time.Time
	in      redis.Reader
	client  *redis.Client
	// sent is closed when everything has been sent.
	sent chan struct{}

	// store is the id of the client's store, or "" before it authenticates, and hash is the password's
	// hash. slot is charged to the store, or to the address. The sessions' mu guards all three.
	store string
	hash  [sha256.Size]byte
	slot  *budget.Charge
	// attached is the id of the store that runs the client's requests, and use counts what it consumes.
	attached string
	use      atomic.Pointer[use]

	// inside reports whether a request is being read. paced is the reader for the rest of it.
	inside   bool
	paced    io.Reader
	failures int
	quit     bool

	// If another node forwards the session, only is the one store it may use; else "". If another node
	// has the store's files, upstream is the connection to that node.
	only     string
	upstream upstream
}

// Limits before authentication, as in Redis.
const (
	loginArgs  = 10
	loginBytes = 16 << 10
	maxArgs    = 1 << 20
)

func (e *Engine) newSession(c net.Conn) *session {
	s := &session{engine: e, net: c, began: time.Now(), sent: make(chan struct{})}
	remote := c.RemoteAddr().String()
	s.address = budget.Address(remote)
	s.slot = e.Unauthenticated.Charge(s.address, "")
	s.client = redis.NewClient(e.ids.Add(1), remote)
	s.client.Local = c.LocalAddr().String()
	s.client.Hangup = func() {
		_ = belowTLS(c).Close()
		s.upstream.close()
	}
	s.in = redis.Reader{
		In: bufio.NewReader(s), Begun: s.beginRequest, Grow: s.client.Grow,
		Args: loginArgs, Bytes: loginBytes,
	}
	return s
}

// belowTLS returns the connection below TLS, or c if it is plain. Closing that does not wait for the
// client, as closing TLS does.
func belowTLS(c net.Conn) net.Conn {
	if secure, ok := c.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return c
}

// serve reads and answers requests until the client or the engine closes the connection.
func (s *session) serve() {
	defer s.close()
	go s.send()
	for !s.quit {
		args, err := s.in.Next()
		if err != nil {
			s.refuse(err)
			return
		}
		s.inside = false
		s.paced = nil
		if s.handle(args) != nil {
			return
		}
		if s.forwards() {
			s.splice()
			return
		}
	}
}

// close ends the session once all received requests have been answered.
func (s *session) close() {
	s.client.Finish()
	s.client.Close()
	<-s.sent
	_ = s.net.Close()
	s.upstream.close()
	s.setUse(nil)
	s.engine.sessions.leave(s)
}

// send sends replies and messages until the client is closed or stops receiving.
func (s *session) send() {
	defer close(s.sent)
	_ = s.client.Send(s.write)
	s.client.Kill()
}

func (s *session) write(b []byte) error {
	if err := s.net.SetWriteDeadline(time.Now().Add(s.engine.Limits.Stall)); err != nil {
		return err
	}
	n, err := s.net.Write(b)
	if u := s.use.Load(); u != nil {
		u.out.Add(int64(n))
	}
	return err
}

// refuse replies to a malformed request.
func (s *session) refuse(err error) {
	var protocol redis.ProtocolError
	if !errors.As(err, &protocol) && !errors.Is(err, redis.ErrMemory) {
		return
	}
	if u := s.use.Load(); u != nil && errors.Is(err, redis.ErrMemory) {
		u.refused.Add(1)
	}
	s.client.Finish()
	s.fail(err)
}

// Read reads from the client.
func (s *session) Read(b []byte) (int, error) {
	n, err := s.read(b)
	if u := s.use.Load(); u != nil {
		u.in.Add(int64(n))
	}
	return n, err
}

func (s *session) read(b []byte) (int, error) {
	if s.store != "" && s.inside { // the rest of a request must keep up the pace
		if s.paced == nil {
			s.paced = s.engine.Limits.Pace.Reader(s.net, s.net.SetReadDeadline)
		}
		return s.paced.Read(b)
	}
	for {
		deadline := time.Now().Add(s.engine.Limits.Idle)
		switch {
		case s.forwards():
			deadline = time.Time{} // the other node closes idle connections
		case s.store == "":
			deadline = s.began.Add(s.engine.Limits.Login)
		}
		if err := s.net.SetReadDeadline(deadline); err != nil {
			return 0, err
		}
		n, err := s.net.Read(b)
		if !errors.Is(err, os.ErrDeadlineExceeded) || n > 0 || !s.client.Waits() {
			return n, err
		}
	}
}

// beginRequest marks the point from which the rest of a request must arrive at a minimum pace.
func (s *session) beginRequest() { s.inside = true }

// handle answers requests about authentication, and hands the others to the store.
func (s *session) handle(args []string) error {
	name := args[0]
	if s.store == "" {
		s.handleUnknown(strings.ToLower(name[:min(len(name), 16)]), args)
		return nil
	}
	switch {
	case strings.EqualFold(name, "reset"):
		return s.reset(args)
	case strings.EqualFold(name, "auth") && (len(args) == 2 || len(args) == 3):
		return s.again(args, s.auth)
	case strings.EqualFold(name, "hello") && authenticates(args):
		return s.again(args, s.hello)
	}
	return s.client.Do(args)
}

// authenticates reports whether a HELLO request has a user and password.
func authenticates(args []string) bool {
	h, err := redis.ParseHello(args)
	return err == nil && h.Auth
}

// handleUnknown answers requests before the client has authenticated.
func (s *session) handleUnknown(name string, args []string) {
	switch {
	case name == "auth":
		s.auth(args)
	case name == "hello":
		s.hello(args)
	case name == "quit":
		s.quit = true
		s.ok("OK")
	case name == "reset" && len(args) == 1:
		s.forget()
		s.ok("RESET")
	default:
		s.fail(errNoAuth)
	}
}

// again authenticates a client that already has a store. Where Redis forbids that, the store refuses it.
func (s *session) again(args []string, run func(args []string)) error {
	s.client.Drain()
	if s.client.Reserved() {
		return s.client.Do([]string{"auth", ""})
	}
	run(args)
	return nil
}

// reset returns the connection to its initial state, without authentication.
func (s *session) reset(args []string) error {
	if err := s.client.Do(args); err != nil || len(args) > 1 {
		return err
	}
	s.client.Detach()
	s.forget()
	return nil
}

func (s *session) ok(text string) { s.client.Reply([]byte("+" + text + "\r\n")) }

// fail replies with an error.
func (s *session) fail(err error) {
	s.client.Reply([]byte("-" + strings.NewReplacer("\r", " ", "\n", " ").Replace(err.Error()) + "\r\n"))
}
