package thread

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"steward/internal/auth"
	"steward/internal/decode"
	"steward/internal/errs"
	"steward/internal/web"
)

const (
	// maxFirstFrame is the largest first frame: it has a key, and its sender is not known yet.
	maxFirstFrame = 4 << 10
	// maxFrame is the largest frame after that: user_data and metadata, escaped.
	maxFrame = 4 << 20
	// smallFrame is what every action may hold in memory. At most maxLarge actions of the process
	// may hold more.
	smallFrame = 64 << 10
	maxLarge   = 32
	// maxInFlight is how many actions of one socket run at once.
	maxInFlight = 16

	firstFrameTimeout = 10 * time.Second // to send the key
	frameTimeout      = 30 * time.Second // from the first byte of a frame to its last
	actionTimeout     = 30 * time.Second // to run an action
	writeTimeout      = 30 * time.Second // to send a response
	pingInterval      = 30 * time.Second
	pongTimeout       = 45 * time.Second // more than actionTimeout: pongs are not read while maxInFlight actions run
)

// Socket serves GET /thread/ws, by which runtimes store threads.
//
// A socket has one goroutine that reads it, and one for each action, so that the actions of a
// socket share transactions as those of different sockets do. Actions on the same thread run in the
// order in which they arrived. With maxInFlight actions in flight the socket is not read any further,
// so that a peer that sends faster than the database writes, or that does not read its responses,
// is slowed down by TCP. The key is authenticated for each action, so that a socket does not
// outlive it. Close ends all sockets: idle ones at once, the others after the responses that they
// still owe.
type Socket struct {
	Store *Store
	// Authenticate returns the caller of a key, or Unauthorized.
	Authenticate func(ctx context.Context, key string) (*auth.Caller, error)

	mu      sync.Mutex
	conns   map[*conn]struct{}
	large   chan struct{} // a semaphore for large frames
	closing bool
	running sync.WaitGroup
}

// OpenSockets returns the number of open sockets.
func (s *Socket) OpenSockets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// ServeHTTP upgrades a request and serves the socket in a goroutine of its own, so that the
// resources of the request are freed.
func (s *Socket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	upgrade := &upgradeWriter{ResponseWriter: w}
	// Any origin is accepted: the key in the first frame is what authenticates, and browsers do not
	// add that by themselves.
	ws, err := websocket.Accept(upgrade, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		if upgrade.refused {
			web.Fail(w, r, errs.New(errs.Malformed, "expected a WebSocket upgrade request, version 13"))
		}
		return
	}
	c := newConn(context.WithoutCancel(r.Context()), ws)
	if !s.add(c) {
		go c.close(websocket.StatusGoingAway)
		return
	}
	go s.serve(c)
}

// upgradeWriter drops the plain-text errors of the library, for a problem document to be written
// instead.
type upgradeWriter struct {
	http.ResponseWriter
	refused bool
}

// Unwrap lets the library hijack the connection.
func (u *upgradeWriter) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// WriteHeader writes the status of an upgrade only.
func (u *upgradeWriter) WriteHeader(status int) {
	u.refused = status != http.StatusSwitchingProtocols
	if !u.refused {
		u.ResponseWriter.WriteHeader(status)
	}
}

func (u *upgradeWriter) Write(p []byte) (int, error) {
	if u.refused {
		return len(p), nil
	}
	return u.ResponseWriter.Write(p)
}

// add registers a socket. It returns false if the server is shutting down.
func (s *Socket) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	if s.conns == nil {
		s.conns = map[*conn]struct{}{}
		s.large = make(chan struct{}, maxLarge)
	}
	s.conns[c] = struct{}{}
	s.running.Add(1)
	return true
}

func (s *Socket) remove(c *conn) {
	_ = c.ws.CloseNow() // it may be closed already
	c.stopPings()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.running.Done()
}

// Close closes all sockets with status 1001 and waits until they are gone. When ctx ends, their
// connections are closed.
func (s *Socket) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		go c.closeWhenIdle(websocket.StatusGoingAway)
	}
	closed := make(chan struct{})
	go func() {
		s.running.Wait()
		close(closed)
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
	}
	for _, c := range conns {
		_ = c.ws.CloseNow() // it may be closed already
	}
	<-closed
	return ctx.Err()
}

// serve reads a socket to its end, and waits for the responses that it owes.
func (s *Socket) serve(c *conn) {
	defer s.remove(c)
	if !s.authenticate(c) {
		return
	}
	c.ws.SetReadLimit(maxFrame)
	c.startPings()
	for c.waitForSlot() {
		if !s.next(c) {
			break
		}
	}
	c.drain()
}

// authenticate reads the first frame and answers it. It returns false if the socket is closed.
func (s *Socket) authenticate(c *conn) bool {
	key, err := readKey(c)
	if err != nil {
		return false
	}
	if key == "" {
		return refuse(c, `expected {"authorization": "<API key>"} in the first frame`)
	}
	c.key = strings.TrimPrefix(key, "Bearer ")
	ctx, cancel := context.WithTimeout(c.ctx, actionTimeout)
	defer cancel()
	caller, err := s.Authenticate(ctx, c.key)
	if err != nil {
		return refuse(c, visibleError(ctx, err))
	}
	if err := caller.Require(auth.ReadThreads); err != nil {
		return refuse(c, visibleError(ctx, err))
	}
	return c.send(response{Success: true}) == nil
}

// readKey reads the key of the first frame, which is "" if the frame has none.
func readKey(c *conn) (string, error) {
	c.ws.SetReadLimit(maxFirstFrame)
	timeout := time.AfterFunc(firstFrameTimeout, func() {
		_ = c.ws.Close(websocket.StatusPolicyViolation, "no API key was sent") // the connection is closed in any case
	})
	defer timeout.Stop()
	kind, text, err := c.ws.Read(c.ctx)
	if err != nil {
		return "", err
	}
	var first struct {
		Authorization string `json:"authorization"`
	}
	if kind != websocket.MessageText || !json.Valid(text) || decode.JSON(text, &first) != nil {
		return "", nil
	}
	return first.Authorization, nil
}

// refuse answers the first frame with an error, closes the socket and returns false.
func refuse(c *conn, text string) bool {
	_ = c.send(response{Error: text}) // the socket is closed in any case
	c.close(websocket.StatusPolicyViolation)
	return false
}

// next reads a frame and starts its action. It returns false if the socket is closing.
func (s *Socket) next(c *conn) bool {
	kind, body, err := c.ws.Reader(c.ctx)
	if err != nil {
		return false
	}
	text, release, err := s.read(c, body)
	if err != nil {
		return false
	}
	a, status := parseAction(kind, text)
	if status != 0 {
		release()
		c.closeWhenIdle(status)
		return false
	}
	if !c.begin(a) {
		release()
		return false
	}
	go s.handle(c, a, release)
	return true
}

// read reads a frame to its end. A large one waits for the semaphore, which release frees when
// the action is done.
func (s *Socket) read(c *conn, body io.Reader) (text []byte, release func(), err error) {
	timeout := time.AfterFunc(frameTimeout, func() { _ = c.ws.CloseNow() }) // the reader gets the error
	defer timeout.Stop()
	text, err = io.ReadAll(io.LimitReader(body, smallFrame))
	if err != nil {
		return nil, nil, err
	}
	if len(text) < smallFrame {
		return text, func() {}, nil
	}
	s.large <- struct{}{}
	release = func() { <-s.large }
	rest, err := io.ReadAll(body)
	if err != nil {
		release()
		return nil, nil, err
	}
	return append(text, rest...), release, nil
}

// handle runs an action after those before it on the same thread, and sends its response.
func (s *Socket) handle(c *conn, a *action, release func()) {
	defer c.end(a)
	defer release()
	if a.previous != nil {
		<-a.previous
	}
	if a.Action == "restore" {
		c.restoring.Lock()
		defer c.restoring.Unlock()
	}
	r, status := s.respond(c, a)
	if err := c.send(r); err != nil {
		_ = c.ws.CloseNow() // the reader gets the error
	}
	if status != 0 {
		c.closeWhenIdle(status)
	}
}
