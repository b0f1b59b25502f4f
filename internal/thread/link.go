package thread

import (
	"context"
	"encoding/binary"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// link is one open socket.
type link struct {
	conn *websocket.Conn
	// line is the connection of conn. Answers go there directly, several at once: the library would send each by itself.
	line line
	// ctx knows the request that opened the socket, and never ends.
	ctx context.Context
	key string

	loading sync.Mutex // held while a large answer may come

	mu      sync.Mutex
	ping    *time.Timer
	free    sync.Cond                // fewer are in hand, or ready
	inHand  int                      // the actions whose answers are not written
	newest  map[string]chan struct{} // of the threads that are in hand, the end of the newest action
	ready   []byte                   // the frames of answers to write
	readied int                      // how many these are
	writing bool
	closing websocket.StatusCode // how the socket ends once nothing is in hand
}

func newLink(ctx context.Context, conn *websocket.Conn, line line) *link {
	l := &link{ctx: ctx, conn: conn, line: line, newest: map[string]chan struct{}{}}
	l.free.L = &l.mu
	return l
}

// line is a connection each of whose writes has its time. A write of net.Conn is never mixed with another.
type line struct{ net.Conn }

func (l line) Write(p []byte) (int, error) {
	if err := l.SetWriteDeadline(time.Now().Add(answerWithin)); err != nil {
		return 0, err
	}
	return l.Conn.Write(p)
}

// maxControl is the largest control frame.
const maxControl = 2 + 125

// appendFrame adds a text frame as servers send it: whole, and not masked.
func appendFrame(to, text []byte) []byte {
	const final, kind = 0x80, byte(websocket.MessageText)
	to = append(to, final|kind)
	switch n := len(text); {
	case n < 126:
		to = append(to, byte(n))
	case n < 1<<16:
		to = binary.BigEndian.AppendUint16(append(to, 126), uint16(n))
	default:
		to = binary.BigEndian.AppendUint64(append(to, 127), uint64(n))
	}
	return append(to, text...)
}

// room waits until an action can be taken in hand. It gives false when the socket is closing.
func (l *link) room() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.full() && l.closing == 0 {
		l.free.Wait()
	}
	return l.closing == 0
}

func (l *link) full() bool { return l.inHand == maxInHand }

// begin takes an action in hand, behind those on the same thread. It gives false when the socket is closing.
func (l *link) begin(a *action) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing != 0 {
		return false
	}
	l.inHand++
	threadID := a.Data.ThreadID
	a.before, a.after = l.newest[threadID], make(chan struct{})
	l.newest[threadID] = a.after
	return true
}

// startLoading lets only one action at a time load an answer that may be large, and none while many bytes are ready: else a peer that takes
// no answers would have a megabyte kept for each action that is in hand.
func (l *link) startLoading() {
	l.loading.Lock()
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.ready) > smallFrame {
		l.free.Wait()
	}
}

// put lets the next action on the same thread begin, and has flush write the answer.
func (l *link) put(a *action, out answer) {
	text := out.appendJSON(nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	if threadID := a.Data.ThreadID; l.newest[threadID] == a.after {
		delete(l.newest, threadID)
	}
	close(a.after)
	l.ready = appendFrame(l.ready, text)
	l.readied++
}

// flush writes the answers that are ready, unless somebody does so. The last one of a closing socket closes it.
func (l *link) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing {
		return
	}
	l.writing = true
	for l.readied > 0 {
		l.mu.Unlock()
		runtime.Gosched() // those whose commit was the same get ready too
		l.mu.Lock()
		out, n := l.ready, l.readied
		l.ready, l.readied = nil, 0
		l.mu.Unlock()
		if _, err := l.line.Write(out); err != nil {
			l.line.Close() // which the reader hears of
		}
		l.mu.Lock()
		l.inHand -= n
		l.free.Broadcast()
	}
	l.writing = false
	if l.inHand == 0 && l.closing != 0 {
		go l.end(l.closing)
	}
}

// say writes an answer while there are no actions.
func (l *link) say(out answer) error {
	_, err := l.line.Write(appendFrame(nil, out.appendJSON(nil)))
	return err
}

// leave closes an idle socket, and has a busy one close after the answers that it owes.
func (l *link) leave(status websocket.StatusCode) {
	l.mu.Lock()
	if l.closing == 0 {
		l.closing = status
	}
	l.free.Broadcast()
	status, idle := l.closing, l.inHand == 0
	l.mu.Unlock()
	if idle {
		l.end(status)
	}
}

// finish waits until all is answered, and closes a socket that is to be closed with a reason.
func (l *link) finish() {
	l.mu.Lock()
	for l.inHand > 0 {
		l.free.Wait()
	}
	status := l.closing
	l.mu.Unlock()
	if status != 0 {
		l.end(status)
	}
}

// end tells the peer why, and waits until it has heard. Who comes second waits for the first.
func (l *link) end(status websocket.StatusCode) { l.conn.Close(status, reasons[status]) }

var reasons = map[websocket.StatusCode]string{
	websocket.StatusGoingAway:               "shutting down",
	websocket.StatusUnsupportedData:         "frames are text",
	websocket.StatusInvalidFramePayloadData: "frames are JSON objects",
	websocket.StatusPolicyViolation:         "the key is not, or no longer, valid here",
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
	if l.listens() {
		ctx, cancel := context.WithTimeout(l.ctx, pongWithin)
		defer cancel()
		if err := l.conn.Ping(ctx); err != nil && l.listens() {
			l.conn.CloseNow()
			return
		}
	}
	l.ping.Reset(pingEvery)
}

// listens tells whether the reader reads.
func (l *link) listens() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.full()
}
