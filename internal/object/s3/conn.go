package s3

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// connListener accepts connections up to a maximum number, and cuts off clients by the limits.
type connListener struct {
	net.Listener

	limits Limits
	open   atomic.Int64
}

// Accept returns the next connection. Those above the maximum are closed.
func (l *connListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= int64(l.limits.Connections) {
			return &conn{Conn: c, listener: l}, nil
		}
		l.open.Add(-1)
		_ = c.Close()
	}
}

// conn is the connection of a client. Whoever takes what is written is never cut off, however slowly;
// whoever takes nothing for the time of a stall is.
type conn struct {
	net.Conn

	listener *connListener
	closed   atomic.Bool
}

// Close closes the connection.
func (c *conn) Close() error {
	if !c.closed.Swap(true) {
		c.listener.open.Add(-1)
	}
	return c.Conn.Close()
}

// CloseWrite has the client read the response before the connection is closed.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Write sends to the client. It returns os.ErrDeadlineExceeded if the client takes nothing for the
// time of a stall.
func (c *conn) Write(p []byte) (n int, err error) {
	err = c.send(func() (int64, error) {
		accepted, err := c.Conn.Write(p[n:])
		n += accepted
		return int64(accepted), err
	})
	return n, err
}

// sendPiece is the size of the pieces in which a file is sent.
const sendPiece = 4 << 20

// ReadFrom sends what a reader has. The kernel sends a file by itself, a piece at a time.
func (c *conn) ReadFrom(r io.Reader) (n int64, err error) {
	direct, ok := c.Conn.(io.ReaderFrom)
	limited, isLimited := r.(*io.LimitedReader)
	if !ok || !isLimited {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	file, isFile := limited.R.(*os.File)
	if !isFile {
		return io.Copy(struct{ io.Writer }{c}, r)
	}
	for limited.N > 0 {
		piece := &io.LimitedReader{R: file, N: min(limited.N, sendPiece)}
		sent := int64(0)
		err := c.send(func() (int64, error) {
			accepted, err := direct.ReadFrom(piece)
			sent += accepted
			return accepted, err
		})
		n += sent
		limited.N -= sent
		if err != nil || sent == 0 {
			return n, err
		}
	}
	return n, nil
}

// send calls a function that writes until it has written all, or the client takes nothing for the time of a
// stall. A write can wait for longer although the client takes something: the kernel accepts more only when a
// good part of its buffer, which can be megabytes, is free.
func (c *conn) send(write func() (accepted int64, err error)) error {
	stall := c.listener.limits.Stall
	progress := time.Now()
	for queued := math.MaxInt; ; {
		if err := c.SetWriteDeadline(time.Now().Add(stall / 4)); err != nil {
			return err
		}
		accepted, err := write()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		left := unacknowledged(c.Conn)
		if accepted > 0 || left < queued {
			progress = time.Now()
		}
		queued = left
		if time.Since(progress) >= stall {
			return err
		}
	}
}
