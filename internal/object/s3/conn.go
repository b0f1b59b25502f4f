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

// connListener caps the number of connections and cuts off clients that exceed the limits.
type connListener struct {
	net.Listener

	limits Limits
	open   atomic.Int64
}

// Accept returns the next connection. It closes connections beyond the maximum.
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

// conn is a client's connection. A client may read as slowly as it likes, but we cut it off when it takes
// nothing for as long as Limits.Stall.
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

// CloseWrite lets the client read the response before the connection closes.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Write sends to the client. It returns os.ErrDeadlineExceeded if the client takes nothing for as long as
// Limits.Stall.
func (c *conn) Write(p []byte) (n int, err error) {
	err = c.send(func() (int64, error) {
		accepted, err := c.Conn.Write(p[n:])
		n += accepted
		return int64(accepted), err
	})
	return n, err
}

// We hand a file to the kernel in pieces of sendPiece bytes.
const sendPiece = 4 << 20

// ReadFrom sends everything from a reader. It lets the kernel send a file directly, piece by piece.
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

// send repeats a write until everything is written or the client takes nothing for as long as Limits.Stall.
// One write can block longer than this although the client is reading: the kernel accepts more bytes only
// once much of its buffer is free, which can be megabytes.
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
