package thread

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/coder/websocket"

	"steward/internal/budget"
	"steward/internal/encode"
)

type conn struct {
	ws *websocket.Conn
	// net is the connection below ws.
	net net.Conn
	// ctx has the values from the request that opened the socket. It is never cancelled.
	ctx context.Context
	key string
	// slot is charged to the address until we know the key, and then to the organization. id names the
	// socket as an owner of memory.
	slot      *budget.Charge
	orgID, id string

	// restoring is held while a restore loads and sends its response, so that a slow reader keeps one
	// large response in memory rather than one for each action.
	restoring sync.Mutex

	mu       sync.Mutex
	changed  sync.Cond                // inFlight, held or closing has changed
	inFlight int                      // actions without a sent response
	held     int64                    // memory of their frames
	last     map[string]chan struct{} // done of the last action in flight, by thread
	closing  websocket.StatusCode     // how to close the socket when nothing is in flight; 0 if it stays open
	ping     *time.Timer
}

func newConn(ctx context.Context, ws *websocket.Conn, below net.Conn, slot *budget.Charge) *conn {
	c := &conn{ctx: ctx, ws: ws, net: below, slot: slot, last: map[string]chan struct{}{}}
	c.changed.L = &c.mu
	return c
}

// waitForSlot waits until another action may be in flight. It returns false if the socket is closing.
func (c *conn) waitForSlot() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.full() && c.closing == 0 {
		c.changed.Wait()
	}
	return c.closing == 0
}

// full reports whether no other action may be in flight. The caller holds mu.
func (c *conn) full() bool { return c.inFlight == maxInFlight || c.held >= maxHeld }

// begin puts an action in flight, behind those on the same thread. It returns false if the socket
// is closing.
func (c *conn) begin(a *action) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing != 0 {
		return false
	}
	c.inFlight++
	a.held = a.charge.Used()
	c.held += a.held
	a.previous = c.last[a.Data.ThreadID]
	c.last[a.Data.ThreadID] = a.done
	return true
}

// end is called when an action is answered. The last one of a closing socket closes it.
func (c *conn) end(a *action) {
	c.mu.Lock()
	if c.last[a.Data.ThreadID] == a.done {
		delete(c.last, a.Data.ThreadID)
	}
	close(a.done)
	c.inFlight--
	c.held -= a.held
	c.changed.Broadcast()
	idle, status := c.inFlight == 0, c.closing
	c.mu.Unlock()
	if idle && status != 0 {
		c.close(status)
	}
}

func (c *conn) send(r response) error {
	text, err := encode.Value(nil, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.ctx, writeTimeout)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, text)
}

// closeWhenIdle closes the socket with a status once all actions in flight are answered.
func (c *conn) closeWhenIdle(status websocket.StatusCode) {
	c.mu.Lock()
	if c.closing == 0 {
		c.closing = status
	}
	c.changed.Broadcast()
	idle, status := c.inFlight == 0, c.closing
	c.mu.Unlock()
	if idle {
		c.close(status)
	}
}

// close sends a close frame with the reason and waits for the peer's, which may stall inside a frame.
func (c *conn) close(status websocket.StatusCode) {
	_ = c.net.SetReadDeadline(time.Now().Add(closeTimeout)) // it may be closed already
	_ = c.ws.Close(status, closeReasons[status])            // the connection is closed in any case
}

var closeReasons = map[websocket.StatusCode]string{
	websocket.StatusGoingAway:               "the server is shutting down",
	websocket.StatusUnsupportedData:         "expected text messages",
	websocket.StatusInvalidFramePayloadData: "expected JSON objects",
	websocket.StatusPolicyViolation:         "the API key is not valid",
	websocket.StatusMessageTooBig:           "callers that may not write threads send less than 64 KiB",
	websocket.StatusTryAgainLater:           "too much is going on, try again later",
}

func (c *conn) startPings() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ping = time.AfterFunc(pingInterval, c.sendPing)
}

func (c *conn) stopPings() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ping != nil {
		c.ping.Stop()
	}
}

// sendPing closes the connection if the peer does not answer a ping, unless we did not read its pong.
func (c *conn) sendPing() {
	if c.reads() {
		ctx, cancel := context.WithTimeout(c.ctx, pongTimeout)
		defer cancel()
		if err := c.ws.Ping(ctx); err != nil && c.reads() {
			_ = c.ws.CloseNow() // the reader gets the error
			return
		}
	}
	c.ping.Reset(pingInterval)
}

// reads reports whether we read the socket; while enough is in flight, we do not.
func (c *conn) reads() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.full()
}
