package thread

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
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
	// smallFrame is what any action may hold in memory; larger frames take one of maxLarge turns.
	smallFrame = 64 << 10
	maxLarge   = 32
	// maxInHand is how many actions of one socket are done at once.
	maxInHand = 16

	firstWithin  = 10 * time.Second // to send the key
	frameWithin  = 30 * time.Second // from a frame's first byte to its last
	actionWithin = 30 * time.Second // to do what it says
	answerWithin = 30 * time.Second // to take the answer
	pingEvery    = 30 * time.Second
	pongWithin   = 45 * time.Second // beyond actionWithin: a pong is not read while all hands are full
)

// Socket serves GET /thread/ws, by which runtimes keep threads.
//
// An idle socket costs one goroutine, its reader. Each action (action.go) gets one of its own, so that those of one socket share commits as
// those of different sockets do; actions on the same thread take turns in the order in which they came (link.go). With maxInHand actions
// whose answers are not written the reader stops: whoever sends faster than the database writes, or does not take answers, is held back by
// TCP. The key is checked again for each action, so that a socket does not outlive it. Pings come from a timer. Close ends all sockets at
// shutdown: idle ones at once, the others after all answers that they owe.
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
	l := newLink(context.WithoutCancel(r.Context()), conn, up.line)
	if !s.add(l) {
		go l.leave(websocket.StatusGoingAway)
		return
	}
	go s.run(l)
}

// upgrade holds back the plain-text refusals of the library, and keeps the connection.
type upgrade struct {
	http.ResponseWriter
	refused bool
	line    line
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

// Hijack gives the library a connection with a small buffer to write to: all that it writes are control frames.
func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	u.line = line{conn}
	return u.line, bufio.NewReadWriter(rw.Reader, bufio.NewWriterSize(u.line, maxControl)), nil
}

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
		go l.leave(websocket.StatusGoingAway)
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

// run reads a socket to its end, and ends it when all answers are written.
func (s *Socket) run(l *link) {
	defer s.drop(l)
	if !s.admit(l) {
		return
	}
	l.conn.SetReadLimit(maxFrame)
	l.startPings()
	for l.room() && s.next(l) {
	}
	l.finish()
}

// buffers are what frames are read into. Nothing of a parsed frame refers to its text.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// next takes one frame in hand. It gives false when the socket is over.
func (s *Socket) next(l *link) bool {
	kind, body, err := l.conn.Reader(l.ctx)
	if err != nil {
		return false
	}
	text := buffers.Get().(*bytes.Buffer)
	text.Reset()
	done, err := s.read(l, text, body)
	if err != nil {
		done()
		return false
	}
	a, status := newAction(kind, text.Bytes())
	if text.Cap() <= 2*smallFrame {
		buffers.Put(text)
	}
	if status != 0 {
		l.leave(status)
	}
	if status != 0 || !l.begin(a) {
		done()
		return false
	}
	go s.serve(l, a, done)
	return true
}

// serve does an action when it is its turn, and answers it.
func (s *Socket) serve(l *link, a *action, done func()) {
	if a.before != nil {
		<-a.before
	}
	loads := a.Action == "restore"
	if loads {
		l.startLoading()
	}
	out, status := s.act(l, a)
	l.put(a, out)
	if loads {
		l.loading.Unlock()
	}
	done()
	if status != 0 {
		l.leave(status)
	}
	l.flush()
}

// read reads a frame to its end. done must be called when what it says is done.
func (s *Socket) read(l *link, text *bytes.Buffer, body io.Reader) (done func(), err error) {
	late := time.AfterFunc(frameWithin, func() { l.conn.CloseNow() })
	defer late.Stop()
	done = func() {}
	if _, err = io.CopyN(text, body, smallFrame); errors.Is(err, io.EOF) {
		return done, nil
	}
	if err != nil {
		return done, err
	}
	s.large <- struct{}{}
	done = func() { <-s.large }
	_, err = text.ReadFrom(body)
	return done, err
}
