package send

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"os"
	"sync"
	"syscall"
)

// maxSends bounds how often we send one attempt. The transport resends a request when the connection
// it reused turns out to be dead: always if nothing was written, and even after writing the request if
// the method is GET or HEAD or there is an Idempotency-Key. Without a bound, a server that reads
// requests and then closes the connection would get one attempt over every idle connection.
const maxSends = 2

var errNoResponse = errors.New("the destination closed the connection twice without answering")

// sendGuard checks each connection that the transport is about to use for an attempt.
type sendGuard struct {
	abort context.CancelCauseFunc
	sends int
	stale bool // the last connection was idle and turned out to be unusable
}

// gotConn runs before the transport writes a request. It makes sure that bytes received earlier cannot
// pass for the response, and ends the attempt when the transport would send it more than maxSends
// times.
func (g *sendGuard) gotConn(info httptrace.GotConnInfo) {
	c := http1Conn(info.Conn)
	if c != nil && !c.awaitIdle() {
		g.stale = info.Reused
		return // nothing is sent
	}
	g.stale = false
	g.sends++
	if g.sends <= maxSends {
		return
	}
	g.abort(errNoResponse)
	if c != nil {
		_ = c.Close() // HTTP/1 does not check the context before it writes
	}
}

// http1Conn returns the connection beneath an HTTP/1 connection. It returns nil for HTTP/2, where
// responses carry their request's number and cannot be confused.
func http1Conn(c net.Conn) *conn {
	if secure, ok := c.(*tls.Conn); ok {
		if secure.ConnectionState().NegotiatedProtocol == "h2" {
			return nil
		}
		c = secure.NetConn()
	}
	plain, _ := c.(*conn)
	return plain
}

// conn is a TCP connection that knows whether the transport has consumed everything received.
//
// The transport closes an idle connection when it finds bytes on it that it did not ask for. But it
// looks for them in a separate goroutine: a request sent before that goroutine runs gets those bytes
// as its response.
type conn struct {
	net.Conn
	raw syscall.RawConn

	mu      sync.Mutex
	changed *sync.Cond
	waiting bool // a Read waits for bytes and has consumed none
	closed  bool
}

func dial(ctx context.Context, dialer *net.Dialer, network, address string) (net.Conn, error) {
	tcp, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	raw, err := tcp.(*net.TCPConn).SyscallConn()
	if err != nil {
		_ = tcp.Close()
		return nil, err
	}
	c := &conn{Conn: tcp, raw: raw}
	c.changed = sync.NewCond(&c.mu)
	return c, nil
}

// Read waits until bytes have arrived, and then reads them. It consumes nothing while waiting is set.
func (c *conn) Read(b []byte) (int, error) {
	var errno syscall.Errno
	c.setWaiting(true)
	err := c.raw.Read(func(fd uintptr) bool {
		errno = peek(fd)
		return errno != syscall.EAGAIN
	})
	c.setWaiting(false)
	if err != nil {
		return 0, err
	}
	if errno != 0 {
		return 0, os.NewSyscallError("read", errno)
	}
	return c.Conn.Read(b)
}

func (c *conn) setWaiting(waiting bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = waiting
	c.changed.Broadcast()
}

func (c *conn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.changed.Broadcast()
	c.mu.Unlock()
	return c.Conn.Close()
}

// awaitIdle waits until the transport has consumed everything received and waits for more. It returns
// false if the transport closed the connection instead, because of unexpected bytes or the end of the
// stream.
func (c *conn) awaitIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && (!c.waiting || c.readable()) {
		c.changed.Wait()
	}
	return !c.closed
}

// readable reports whether we can read bytes or the end of the stream.
func (c *conn) readable() bool {
	var errno syscall.Errno
	err := c.raw.Control(func(fd uintptr) { errno = peek(fd) })
	return err == nil && errno == 0
}

// peek looks at a socket's next byte without consuming it. It returns EAGAIN if none has arrived.
func peek(fd uintptr) syscall.Errno {
	var b [1]byte
	for {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		var errno syscall.Errno
		errors.As(err, &errno)
		if errno != syscall.EINTR {
			return errno
		}
	}
}
