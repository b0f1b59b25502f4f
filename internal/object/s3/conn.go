package s3

import (
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"time"

	"github.com/valyala/fasthttp"
)

// connListener accepts connections that cut off clients by the limits.
type connListener struct {
	net.Listener
	limits Limits
}

// Accept returns the next connection.
func (l *connListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, limits: l.limits}, nil
}

// conn is the connection of a client. Whoever takes what is written is never cut off, however slowly;
// whoever takes nothing for the time of a stall is. A body must arrive at a minimum rate, too: a
// client is asked for it, so that it must not keep its request open with a byte now and then.
type conn struct {
	net.Conn
	limits Limits

	body *pace // of the body that is read, or nil
}

// connOf returns the connection of a request, which is below TLS if there is TLS.
func connOf(ctx *fasthttp.RequestCtx) (*conn, bool) {
	below := ctx.Conn()
	if secure, ok := below.(*tls.Conn); ok {
		below = secure.NetConn()
	}
	c, ok := below.(*conn)
	return c, ok
}

// pace measures how fast a body arrives. Only the time counts in which the server waits for it.
type pace struct {
	stall  time.Duration
	waited time.Duration
	bytes  int64
}

// receive renews the read deadline whenever a part of a body arrives, until another deadline is set.
func (c *conn) receive(stall time.Duration) { c.body = &pace{stall: stall} }

// SetReadDeadline sets the deadline of reads that are not of a body.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.body = nil
	return c.Conn.SetReadDeadline(t)
}

// Read reads what the client sends. It returns os.ErrDeadlineExceeded if a body comes too slowly.
func (c *conn) Read(p []byte) (int, error) {
	if c.body == nil {
		return c.Conn.Read(p)
	}
	began := time.Now()
	if err := c.Conn.SetReadDeadline(began.Add(c.body.stall)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if c.body.tooSlow(n, time.Since(began), c.limits.Rate) {
		return 0, os.ErrDeadlineExceeded
	}
	return n, err
}

// tooSlow reports whether less than a number of bytes came in each second of the last stall.
func (p *pace) tooSlow(n int, waited time.Duration, rate int64) bool {
	p.bytes += int64(n)
	p.waited += waited
	if p.waited < p.stall {
		return false
	}
	slow := float64(p.bytes) < p.waited.Seconds()*float64(rate)
	p.bytes = 0
	p.waited = 0
	return slow
}

// Write sends to the client. It returns os.ErrDeadlineExceeded if the client takes nothing for the
// time of a stall. A write can wait for longer although the client takes something: the kernel
// accepts more only when a good part of its buffer, which can be megabytes, is free.
func (c *conn) Write(p []byte) (n int, err error) {
	progress := time.Now()
	for queued := math.MaxInt; ; {
		if err := c.SetWriteDeadline(time.Now().Add(c.limits.Stall / 4)); err != nil {
			return n, err
		}
		accepted, err := c.Conn.Write(p[n:])
		n += accepted
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		left := unacknowledged(c.Conn)
		if accepted > 0 || left < queued {
			progress = time.Now()
		}
		queued = left
		if time.Since(progress) >= c.limits.Stall {
			return n, err
		}
	}
}

// ReadFrom sends what a reader has, in larger pieces than the protocol's buffer.
func (c *conn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(struct{ io.Writer }{c}, r) }
