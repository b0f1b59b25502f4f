package thread

import (
	"context"
	"errors"
	"io"

	"github.com/coder/websocket"

	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/errs"
)

// next reads a frame and starts its action. It returns false if the socket is closing.
func (s *Socket) next(c *conn) bool {
	kind, body, err := c.ws.Reader(c.ctx)
	if err != nil {
		return false
	}
	charge := s.Frames.Charge(c.orgID, c.id)
	text, err := s.read(c, charge, body)
	if err != nil {
		if status := closeStatus(err); status != 0 {
			c.closeWhenIdle(status)
		}
		return false
	}
	a, status := s.parse(c, kind, text)
	if status != 0 {
		charge.Release()
		c.closeWhenIdle(status)
		return false
	}
	a.charge = charge
	if !c.begin(a) {
		charge.Release()
		return false
	}
	go s.handle(c, a)
	return true
}

// parse is parseAction, in turn for a large frame.
func (s *Socket) parse(c *conn, kind websocket.MessageType, text []byte) (a *action, status websocket.StatusCode) {
	err := s.Store.Decoding.Do(c.ctx, c.orgID, text, func() error {
		a, status = parseAction(kind, text)
		return nil
	})
	if err != nil {
		status = closeStatus(err)
	}
	return a, status
}

// closeStatus returns the status for a frame that we could not read to its end or decode, or 0 if the
// connection is lost.
func closeStatus(err error) websocket.StatusCode {
	switch {
	case errors.Is(err, budget.ErrFull), errs.KindOf(err) == errs.Unavailable:
		return websocket.StatusTryAgainLater
	case errors.Is(err, errReadOnly), errs.KindOf(err) == errs.TooLarge:
		return websocket.StatusMessageTooBig
	case errs.KindOf(err) == errs.Unauthorized:
		return websocket.StatusPolicyViolation
	}
	return 0
}

// read reads a frame to its end. The peer must keep the pace that we demand for request bodies.
func (s *Socket) read(c *conn, charge *budget.Charge, body io.Reader) ([]byte, error) {
	paced := budget.Body.Reader(body, c.net.SetReadDeadline)
	large := &frameReader{r: paced, left: smallFrame, allow: func() error {
		ctx, cancel := context.WithTimeout(c.ctx, actionTimeout)
		defer cancel()
		caller, err := s.Authenticate(ctx, c.key)
		if err != nil {
			return err
		}
		if caller.Require(auth.WriteThreads) != nil {
			return errReadOnly
		}
		return nil
	}}
	return budget.ReadWhenRoom(charge, large, frameRoom-1, roomTimeout)
}

// errReadOnly is the error for a large frame from a caller that may not write threads.
var errReadOnly = errors.New("the caller may not write threads")

// frameReader reads a frame, and calls allow before it reads more than a number of bytes.
type frameReader struct {
	r     io.Reader
	left  int
	allow func() error
}

func (f *frameReader) Read(b []byte) (int, error) {
	if f.allow != nil && f.left == 0 {
		if err := f.allow(); err != nil {
			return 0, err
		}
		f.allow = nil
	}
	if f.allow != nil {
		b = b[:min(len(b), f.left)]
	}
	n, err := f.r.Read(b)
	f.left -= n
	return n, err
}

// handle runs an action after those before it on the same thread, and sends its response.
func (s *Socket) handle(c *conn, a *action) {
	defer c.end(a)
	defer a.charge.Release()
	if a.previous != nil {
		<-a.previous
	}
	var status websocket.StatusCode
	var err error
	if a.Action == "restore" {
		status, err = s.restore(c, a)
	} else {
		var r response
		r, status = s.respond(c, a)
		err = c.send(r)
	}
	if err != nil {
		_ = c.ws.CloseNow() // the reader gets the error
	}
	if status != 0 {
		c.closeWhenIdle(status)
	}
}

// restore answers a restore. We charge its thread while we load and send it, which bounds how much
// memory slow readers occupy.
func (s *Socket) restore(c *conn, a *action) (websocket.StatusCode, error) {
	c.restoring.Lock()
	defer c.restoring.Unlock()
	ctx, cancel := context.WithTimeout(c.ctx, roomTimeout)
	defer cancel()
	charge := s.Responses.Charge(c.orgID, c.id)
	defer charge.Release()
	if charge.Wait(ctx, MaxText) != nil {
		return 0, c.send(response{ID: a.ID, Error: "too many threads are being restored, try again later"})
	}
	r, status := s.respond(c, a)
	size := 0
	if r.Data != nil {
		size = min(len(*r.Data), MaxText)
	}
	charge.Return(MaxText - int64(size))
	return status, c.send(r)
}
