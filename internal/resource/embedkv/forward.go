package embedkv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"steward/internal/errs"
	"steward/internal/resource"
)

// ServeForwarded serves a connection that another node forwards for its client. The connection can use
// one store only, which must be here.
func (e *Engine) ServeForwarded(c net.Conn, store string) {
	s := e.newSession(c)
	s.only = store
	s.address = store // one store's clients must not lock out another's
	s.slot = e.Unauthenticated.Charge(s.address, "")
	e.begin(s)
}

// reachable returns Unavailable if a store is on another node and we cannot connect to it.
func (e *Engine) reachable(p *resource.Provisioned) error {
	if e.Nodes != nil {
		return nil
	}
	return e.mine(p)
}

// check returns an error, which is a reply, if the session cannot use store p.
func (s *session) check(p *resource.Provisioned) error {
	switch {
	case s.only != "" && s.only != p.ID:
		return errors.New("ERR this connection is for another store, open a new one")
	case p.Node == s.engine.Node:
		return nil
	case s.only != "" || s.engine.Nodes == nil:
		return fmt.Errorf("ERR store %s is on another node of this installation (%s), connect to that one", p.ID, p.Node)
	case s.attached != "":
		return errors.New("ERR this connection is for another store, open a new one")
	}
	return nil
}

// upstream is a connection to another node. Its zero value has no connection.
type upstream struct {
	mu     sync.Mutex
	conn   net.Conn
	closed bool
}

// set sets the connection. If close was called before, set closes it.
func (u *upstream) set(c net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conn = c
	if u.closed {
		_ = c.Close()
	}
}

// get returns the connection, or nil.
func (u *upstream) get() net.Conn {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.conn
}

// close closes the connection.
func (u *upstream) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	if u.conn != nil {
		_ = u.conn.Close()
	}
}

// forwards reports whether another node runs the session's requests.
func (s *session) forwards() bool { return s.upstream.get() != nil }

// dialTimeout bounds connecting to a store's node.
const dialTimeout = 5 * time.Second

// connect connects an authenticated session to the node that has its store's files. If that fails, the
// session is unauthenticated again. The error is a reply.
func (s *session) connect(p *resource.Provisioned) error {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	conn, err := s.engine.Nodes.Dial(ctx, p.Node, "/kv/"+p.ID, s.client.Address)
	if err == nil {
		s.setUse(s.engine.usage.Of(p.OrgID, p.ID))
		s.upstream.set(conn)
		return nil
	}
	s.forget()
	message := "the node of the store does not answer now"
	if known, ok := errors.AsType[*errs.Error](err); ok {
		message = known.Message
	}
	return fmt.Errorf("ERR %s, try again", message)
}

// replay sends the request that authenticated the client to the other node, which checks it again and
// replies.
func (s *session) replay(args []string) {
	request := []byte("*" + strconv.Itoa(len(args)) + "\r\n")
	for _, arg := range args {
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(arg), arg)
	}
	_, _ = s.upstream.get().Write(request) // an error recurs in the next read
}

// splice forwards the client's bytes, starting with those already read, and the other node's replies,
// until one side ends. The other node enforces limits and timeouts.
func (s *session) splice() {
	conn := s.upstream.get()
	replied := make(chan struct{})
	go func() {
		defer close(replied)
		defer s.client.Close() // after sending the rest
		buffer := make([]byte, 16<<10)
		for {
			n, err := conn.Read(buffer)
			if n > 0 {
				s.client.Reply(buffer[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	if _, err := io.Copy(conn, s.in.In); err != nil {
		_ = conn.Close()
	} else if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // replies to these requests still arrive
	}
	<-replied
}
