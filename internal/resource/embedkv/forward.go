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

// ServeForwarded serves a connection that another node passes on, on behalf of a client of that one. It
// can be used for one store only, which must be here.
func (e *Engine) ServeForwarded(c net.Conn, store string) {
	s := e.newSession(c)
	s.only = store
	s.address = store // so that the clients of one store do not keep out those of another
	s.slot = e.Unauthenticated.Charge(s.address, "")
	e.begin(s)
}

// reachable returns Unavailable if a store is on another node, and there is no way to that.
func (e *Engine) reachable(p *resource.Provisioned) error {
	if e.Dial != nil {
		return nil
	}
	return e.mine(p)
}

// check returns an error, which is a reply, if the session cannot be one of a store.
func (s *session) check(p *resource.Provisioned) error {
	switch {
	case s.only != "" && s.only != p.ID:
		return errors.New("ERR this connection is for another store, open a new one")
	case p.Node == s.engine.Node:
		return nil
	case s.only != "" || s.engine.Dial == nil:
		return fmt.Errorf("ERR store %s is on another node of this installation (%s), connect to that one", p.ID, p.Node)
	case s.attached != "":
		return errors.New("ERR this connection is for another store, open a new one")
	}
	return nil
}

// upstream is a connection to another node. Its zero value is none.
type upstream struct {
	mu     sync.Mutex
	conn   net.Conn
	closed bool
}

// set sets the connection, and closes it if close was called before.
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

// forwards reports whether another node runs the requests of the session.
func (s *session) forwards() bool { return s.upstream.get() != nil }

// dialTimeout bounds the connection to the node of a store.
const dialTimeout = 5 * time.Second

// connect connects a session that has authenticated to the node that has the files of its store. If that
// fails, it has not authenticated. The error is a reply.
func (s *session) connect(p *resource.Provisioned) error {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	conn, err := s.engine.Dial(ctx, p, s.client.Address)
	if err == nil {
		s.setUse(s.engine.usage.Of(p.OrgID, p.ID))
		s.upstream.set(conn)
		return nil
	}
	s.forget()
	message := "the node of the store does not answer now"
	var known *errs.Error
	if errors.As(err, &known) {
		message = known.Message
	}
	return fmt.Errorf("ERR %s, try again", message)
}

// replay sends the request that has authenticated the client to the other node, which checks it too and
// answers it.
func (s *session) replay(args []string) {
	request := []byte("*" + strconv.Itoa(len(args)) + "\r\n")
	for _, arg := range args {
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(arg), arg)
	}
	_, _ = s.upstream.get().Write(request) // then the next read fails too
}

// splice passes on what the client sends, beginning with what has been read already, and what the other node
// replies, until one of them ends. The other node enforces limits of requests and times.
func (s *session) splice() {
	conn := s.upstream.get()
	replied := make(chan struct{})
	go func() {
		defer close(replied)
		s.passReplies(conn)
	}()
	if _, err := io.Copy(conn, s.in.In); err != nil {
		_ = conn.Close()
	} else if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // the replies to what was sent still come
	}
	<-replied
}

// passReplies passes on replies until the other node closes its connection. Then that of the client is
// closed too, when they have been sent.
func (s *session) passReplies(conn net.Conn) {
	defer s.client.Close()
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
}
