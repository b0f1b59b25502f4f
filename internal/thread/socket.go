package thread

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/decode"
	"steward/internal/disk"
	"steward/internal/errs"
	"steward/internal/web"
)

const (
	// maxFirstFrame is the largest first frame: it has a key, and its sender is not known yet.
	maxFirstFrame = 4 << 10
	// maxFrame is the largest frame after that: user_data and metadata, escaped.
	maxFrame = 4 << 20
	// frameRoom is the memory for it, and for what shows that it is larger.
	frameRoom = maxFrame + 2
	// smallFrame is the size above which we read frames only from callers that may write threads.
	smallFrame = 64 << 10
	// maxInFlight caps the actions that one socket runs at once. It runs fewer if their frames reach
	// maxHeld bytes.
	maxInFlight = 16
	maxHeld     = 1 << 20

	firstFrameTimeout = 10 * time.Second // to send the key
	roomTimeout       = 10 * time.Second // to wait for memory
	actionTimeout     = 30 * time.Second // to run an action
	writeTimeout      = 30 * time.Second // to send a response
	closeTimeout      = 5 * time.Second  // to answer the end of the socket
	pingInterval      = 30 * time.Second
	pongTimeout       = 45 * time.Second // more than actionTimeout: pongs are not read while maxInFlight actions run
)

// Socket serves GET /thread/ws, where runtimes store threads. It must be made by NewSocket.
//
// One goroutine reads a socket, and each action has its own, so that actions can share transactions
// whether they come from one socket or several. Actions on the same thread run in the order in which
// they arrive. With maxInFlight actions in flight we stop reading, so TCP slows down a peer that sends
// faster than the database writes, or that does not read its responses. We authenticate the key for
// each action, because a socket must not outlive it. Close ends all sockets: idle ones at once, the
// others after the responses that they still owe.
//
// We charge sockets, and the memory for frames and responses, to their organizations. If there is no
// room, a socket waits; if it waits too long, we close it with status 1013.
type Socket struct {
	Store *Store
	// Authenticate returns a key's caller, or Unauthorized.
	Authenticate func(ctx context.Context, key string) (*auth.Caller, error)
	// Open has a slot for each socket, and Unauthenticated one for each that has not sent its key yet,
	// owned by its address.
	Open, Unauthenticated *budget.Pool
	// Frames is the memory for actions in flight, Responses the memory for restored threads.
	Frames, Responses *budget.Pool
	// Disk is the database's, or nil if that is elsewhere.
	Disk *disk.Space

	ids     atomic.Int64
	mu      sync.Mutex
	conns   map[*conn]struct{}
	closing bool
	running sync.WaitGroup
}

// NewSocket returns a Socket that admits a number of open sockets, which share the given memory. Eight
// large frames and responses always fit.
func NewSocket(s *Store, authenticate func(context.Context, string) (*auth.Caller, error), sockets, memory int64) *Socket {
	return &Socket{
		Store: s, Authenticate: authenticate, conns: map[*conn]struct{}{},
		Open:            budget.NewPool(sockets, 4),
		Unauthenticated: budget.NewPool(sockets/8, 4),
		Frames:          budget.NewPool(memory/2, frameRoom),
		Responses:       budget.NewPool(memory/2, MaxText),
	}
}

// OpenSockets counts the open sockets.
func (s *Socket) OpenSockets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// ServeHTTP upgrades a request and serves the socket in its own goroutine, which frees the request's
// resources.
func (s *Socket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	slot := s.Unauthenticated.Charge(budget.Address(r.RemoteAddr), "")
	if !slot.Take(1) {
		web.Fail(w, r, errs.Unavailablef(nil, "too many sockets of this address have not sent their key"))
		return
	}
	upgrade := &upgradeWriter{ResponseWriter: w}
	// Any origin may connect: the key in the first frame authenticates, and browsers do not add that
	// by themselves.
	ws, err := websocket.Accept(upgrade, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		slot.Release()
		if upgrade.refused {
			web.Fail(w, r, errs.New(errs.Malformed, "expected a WebSocket upgrade request, version 13"))
		}
		return
	}
	c := newConn(context.WithoutCancel(r.Context()), ws, upgrade.conn, slot)
	if !s.add(c) {
		go func() {
			c.close(websocket.StatusGoingAway)
			slot.Release()
		}()
		return
	}
	go s.serve(c)
}

// upgradeWriter drops the library's plain-text errors, so that we can write a problem document instead.
type upgradeWriter struct {
	http.ResponseWriter
	refused bool
	conn    net.Conn
}

// Hijack notes the connection, whose deadlines the library does not offer.
func (u *upgradeWriter) Hijack() (conn net.Conn, rw *bufio.ReadWriter, err error) {
	u.conn, rw, err = http.NewResponseController(u.ResponseWriter).Hijack()
	return u.conn, rw, err
}

// WriteHeader writes only an upgrade's status.
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
	s.conns[c] = struct{}{}
	s.running.Add(1)
	return true
}

func (s *Socket) remove(c *conn) {
	_ = c.ws.CloseNow() // it may be closed already
	c.stopPings()
	c.slot.Release()
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
	c.mu.Lock()
	for c.inFlight > 0 {
		c.changed.Wait()
	}
	status := c.closing
	c.mu.Unlock()
	if status != 0 {
		c.close(status)
	}
}

// authenticate reads the first frame and answers it. It returns false if the socket is closed.
func (s *Socket) authenticate(c *conn) bool {
	key, err := readKey(c)
	if err != nil {
		return false
	}
	if key == "" {
		return refuse(c, `expected {"authorization": "<API key>"} in the first frame`, websocket.StatusPolicyViolation)
	}
	c.key = strings.TrimPrefix(key, "Bearer ")
	ctx, cancel := context.WithTimeout(c.ctx, actionTimeout)
	defer cancel()
	caller, err := s.Authenticate(ctx, c.key)
	if err != nil {
		return refuse(c, visibleError(ctx, err), websocket.StatusPolicyViolation)
	}
	if err := caller.Require(auth.ReadThreads); err != nil {
		return refuse(c, visibleError(ctx, err), websocket.StatusPolicyViolation)
	}
	if !s.own(c, caller.OrgID) {
		return refuse(c, "too many sockets of this organization are open, try again later", websocket.StatusTryAgainLater)
	}
	return c.send(response{Success: true}) == nil
}

// own charges a socket to an organization instead of its address, and reports whether there was room.
func (s *Socket) own(c *conn, orgID string) bool {
	slot := s.Open.Charge(orgID, "")
	if !slot.Take(1) {
		return false
	}
	c.slot.Release()
	c.slot = slot
	c.orgID = orgID
	c.id = strconv.FormatInt(s.ids.Add(1), 10)
	return true
}

// readKey reads the key in the first frame, or "" if there is none.
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
func refuse(c *conn, text string, status websocket.StatusCode) bool {
	_ = c.send(response{Error: text}) // the socket is closed in any case
	c.close(status)
	return false
}
