package thread

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/web"
)

const (
	// maxFirst is the largest first frame: it holds a key, and nobody is known to have sent it.
	maxFirst = 4 << 10
	// maxFrame is the largest frame after that: user_data and metadata, escaped.
	maxFrame = 4 << 20
	// smallFrame is what any socket may hold in memory; larger frames take one of maxLarge turns.
	smallFrame = 64 << 10
	maxLarge   = 32

	firstWithin  = 10 * time.Second // to send the key
	frameWithin  = 30 * time.Second // from a frame's first byte to its last
	actionWithin = 30 * time.Second // to do what it says
	answerWithin = 30 * time.Second // to take the answer
	pingEvery    = 30 * time.Second
	pongWithin   = 45 * time.Second // beyond actionWithin: a pong is not read while an action is done
)

// Socket serves GET /thread/ws, by which runtimes keep threads.
//
// A socket costs one goroutine. It reads a frame, does what it says (action.go), answers, and only then reads the next: order is kept, and
// whoever sends faster than the database writes is held back by TCP. The key is checked again for each action, so that a socket does not
// outlive it. Pings come from a timer. Close ends all sockets at shutdown: idle ones at once, the others after the answer they are at.
type Socket struct {
	Store *Store
	// Authenticate gives the caller of a key, or Unauthorized.
	Authenticate func(ctx context.Context, key string) (*auth.Caller, error)

	mu      sync.Mutex
	live    map[*link]struct{}
	large   chan struct{}
	closing bool
	running sync.WaitGroup
}

// link is one open socket.
type link struct {
	conn *websocket.Conn
	// ctx knows the request that opened the socket, and never ends.
	ctx context.Context
	key string

	mu      sync.Mutex
	ping    *time.Timer
	busy    bool // from a frame's end until its answer is written
	closing bool
}

// ServeHTTP upgrades a request and leaves the socket to a goroutine of its own, so that all that the request held is freed.
func (s *Socket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	up := &upgrade{ResponseWriter: w}
	// Any origin may come: the key in the first frame is what counts, and no browser adds that by itself.
	conn, err := websocket.Accept(up, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		if up.refused {
			web.Fail(w, r, errs.New(errs.Malformed, "this path is a WebSocket: send an upgrade request of version 13"))
		}
		return
	}
	l := &link{conn: conn, ctx: context.WithoutCancel(r.Context())}
	if !s.add(l) {
		go conn.Close(websocket.StatusGoingAway, "shutting down")
		return
	}
	go s.run(l)
}

// upgrade holds back the plain-text refusals of the library.
type upgrade struct {
	http.ResponseWriter
	refused bool
}

func (u *upgrade) WriteHeader(status int) {
	u.refused = status != http.StatusSwitchingProtocols
	if !u.refused {
		u.ResponseWriter.WriteHeader(status)
	}
}

func (u *upgrade) Write(p []byte) (int, error) {
	if u.refused {
		return len(p), nil
	}
	return u.ResponseWriter.Write(p)
}

// Unwrap leads to the connection.
func (u *upgrade) Unwrap() http.ResponseWriter { return u.ResponseWriter }

func (s *Socket) add(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	if s.live == nil {
		s.live, s.large = map[*link]struct{}{}, make(chan struct{}, maxLarge)
	}
	s.live[l] = struct{}{}
	s.running.Add(1)
	return true
}

func (s *Socket) drop(l *link) {
	l.conn.CloseNow()
	l.stopPings()
	s.mu.Lock()
	delete(s.live, l)
	s.mu.Unlock()
	s.running.Done()
}

// Close ends all sockets with 1001 and waits until they are gone; when ctx ends first, they are cut off.
func (s *Socket) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	links := make([]*link, 0, len(s.live))
	for l := range s.live {
		links = append(links, l)
	}
	s.mu.Unlock()
	for _, l := range links {
		l.leave()
	}
	gone := make(chan struct{})
	go func() {
		s.running.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
	}
	for _, l := range links {
		l.conn.CloseNow()
	}
	<-gone
	return ctx.Err()
}

func (s *Socket) run(l *link) {
	defer s.drop(l)
	if !s.admit(l) {
		return
	}
	l.conn.SetReadLimit(maxFrame)
	l.startPings()
	for s.next(l) {
	}
}

// next takes one frame and answers it. It gives false when the socket is over.
func (s *Socket) next(l *link) bool {
	kind, body, err := l.conn.Reader(l.ctx)
	if err != nil {
		return false
	}
	frame, done, err := s.read(l, body)
	defer done()
	if err != nil || !l.begin() {
		return false
	}
	out, status := s.act(l, kind, frame)
	if out != nil && l.write(*out) != nil {
		return false
	}
	if status != 0 {
		l.conn.Close(status, reasons[status])
		return false
	}
	return l.end()
}

var reasons = map[websocket.StatusCode]string{
	websocket.StatusUnsupportedData:         "frames are text",
	websocket.StatusInvalidFramePayloadData: "frames are JSON objects",
	websocket.StatusPolicyViolation:         "the key is not, or no longer, valid here",
}

// read reads a frame to its end. done must be called when it is of no more use.
func (s *Socket) read(l *link, body io.Reader) (frame []byte, done func(), err error) {
	late := time.AfterFunc(frameWithin, func() { l.conn.CloseNow() })
	defer late.Stop()
	var buf bytes.Buffer
	done = func() {}
	_, err = io.CopyN(&buf, body, smallFrame)
	if errors.Is(err, io.EOF) {
		return buf.Bytes(), done, nil
	}
	if err != nil {
		return nil, done, err
	}
	s.large <- struct{}{}
	done = func() { <-s.large }
	_, err = buf.ReadFrom(body)
	return buf.Bytes(), done, err
}

func (l *link) write(a answer) error {
	text, err := encodeJSON(a)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(l.ctx, answerWithin)
	defer cancel()
	return l.conn.Write(ctx, websocket.MessageText, text)
}

// begin says that a frame is being worked on. It gives false when the socket is closing.
func (l *link) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = !l.closing
	return l.busy
}

// end says that the frame is answered. It gives false when the socket was waiting for that to close.
func (l *link) end() bool {
	l.mu.Lock()
	l.busy = false
	closing := l.closing
	l.mu.Unlock()
	if closing {
		l.conn.Close(websocket.StatusGoingAway, "shutting down")
	}
	return !closing
}

// leave closes an idle socket, and has a busy one close after its answer.
func (l *link) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
	if !l.busy {
		go l.conn.Close(websocket.StatusGoingAway, "shutting down")
	}
}

func (l *link) isBusy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy
}

func (l *link) startPings() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ping = time.AfterFunc(pingEvery, l.pinged)
}

func (l *link) stopPings() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ping != nil {
		l.ping.Stop()
	}
}

// pinged runs by the timer. A peer that does not answer is cut off, unless it was us who did not listen.
func (l *link) pinged() {
	if !l.isBusy() {
		ctx, cancel := context.WithTimeout(l.ctx, pongWithin)
		defer cancel()
		if err := l.conn.Ping(ctx); err != nil && !l.isBusy() {
			l.conn.CloseNow()
			return
		}
	}
	l.ping.Reset(pingEvery)
}
