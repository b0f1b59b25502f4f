package embedkv

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/tidwall/redcon"
)

// session is a connection of a client.
type session struct {
	engine *Engine
	net    net.Conn
	id     int64
	began  time.Time
	in     requests
	out    reply

	// store is the id of the store that the client has authenticated for, or "", and hash that of the
	// password.
	store string
	hash  [sha256.Size]byte
	// deadline is that of the request that is being read.
	deadline time.Time
	failures int
	name     string
	quit     bool

	// pending are requests that have been read and not run, ran how many of them the current job has.
	pending []request
	ran     int
	job     job
	// queue are the commands since MULTI; nil if there was none.
	queue *queue
	// charged is the memory taken for requests, replies that for replies.
	charged, replies int
}

// request is a command, or all those of a transaction.
type request struct {
	name string
	cmd  redcon.Command
	exec []request
}

// queue are the commands between MULTI and EXEC.
type queue struct {
	requests []request
	size     int
	// failed is whether one of them was refused.
	failed bool
}

// flushSize is the size of replies at which they are sent before more commands are run.
const flushSize = 256 << 10

func (e *Engine) newSession(c net.Conn) *session {
	s := &session{engine: e, net: c, id: e.ids.Add(1), began: time.Now()}
	s.in = requests{
		in: bufio.NewReader(s), begun: s.beginRequest, grow: s.grow,
		args: loginArgs, bytes: loginBytes,
	}
	s.job = job{run: s.run, done: make(chan struct{}, 1)}
	return s
}

// serve reads and answers requests until the client or the engine closes the connection.
func (s *session) serve() {
	defer s.close()
	for !s.quit {
		cmd, size, err := s.in.next()
		if err != nil {
			s.refuse(err)
			return
		}
		s.deadline = time.Time{}
		s.handle(request{name: strings.ToLower(string(clip(cmd.Args[0], maxEcho))), cmd: cmd}, size)
	}
	_ = s.flush()
}

func (s *session) close() {
	_ = s.net.Close()
	s.engine.sessions.leave(s)
	s.engine.memory.give(s.charged + s.replies)
}

// refuse answers requests before a malformed one, and says what is wrong with that.
func (s *session) refuse(err error) {
	var protocol protocolError
	if !errors.As(err, &protocol) && !errors.Is(err, errMemory) {
		return
	}
	if s.flush() == nil {
		s.out.b = redcon.AppendError(s.out.b, err.Error())
		_ = s.write()
	}
}

// Read reads from the client. Before it waits for more, all that has been read is run, so that a
// pipeline shares a commit.
func (s *session) Read(b []byte) (int, error) {
	if err := s.flush(); err != nil {
		return 0, err
	}
	if err := s.net.SetReadDeadline(s.readDeadline()); err != nil {
		return 0, err
	}
	return s.net.Read(b)
}

func (s *session) readDeadline() time.Time {
	switch {
	case s.store == "":
		return s.began.Add(s.engine.Limits.Login)
	case !s.deadline.IsZero():
		return s.deadline
	}
	return time.Now().Add(s.engine.Limits.Idle)
}

// beginRequest begins the time in which the rest of a request must come.
func (s *session) beginRequest() {
	if s.deadline.IsZero() {
		s.deadline = time.Now().Add(s.engine.Limits.Stall)
	}
}

// grow reserves memory for a request.
func (s *session) grow(n int) error {
	if err := s.engine.memory.take(n); err != nil {
		return err
	}
	s.charged += n
	return nil
}

// handle answers a request about the connection, and keeps others for flush.
func (s *session) handle(r request, size int) {
	if connection, ok := connectionCommands[r.name]; ok && (s.queue == nil || connection.immediate) {
		_ = s.runPending() // replies are in the order of requests; errors are replies too
		s.out.name = r.name
		s.out.args = r.cmd.Args
		if s.store == "" && !connection.anyone {
			s.out.WriteError("NOAUTH Authentication required.")
			return
		}
		connection.run(s, r.cmd.Args[1:])
		return
	}
	switch {
	case s.store == "":
		s.out.WriteError("NOAUTH Authentication required.")
	case s.queue != nil:
		s.enqueue(r, size)
	default:
		s.job.size += size
		s.pending = append(s.pending, r)
	}
}

// flush runs pending requests and sends the replies.
func (s *session) flush() error {
	for len(s.pending) > 0 {
		if err := s.runPending(); err != nil {
			return err
		}
	}
	return s.write()
}

// runPending runs pending requests. It sends replies itself only if they are large.
func (s *session) runPending() error {
	for len(s.pending) > 0 {
		start := len(s.out.b)
		s.ran = 0
		err := s.engine.pool.use(s.store, func(st *store) error { return st.do(&s.job) })
		if err != nil {
			s.fail(start, err)
		}
		clear(s.pending[:s.ran])
		s.pending = s.pending[s.ran:]
		if len(s.out.b) < flushSize {
			continue
		}
		if err := s.write(); err != nil {
			return err
		}
	}
	s.pending = nil
	s.job.size = 0
	s.releaseMemory()
	return nil
}

// releaseMemory returns the memory of requests that have run. Those of a transaction are kept.
func (s *session) releaseMemory() {
	if s.queue == nil {
		s.engine.memory.give(s.charged)
		s.charged = 0
	}
}

// fail replaces the replies since start: nothing of what the requests did was kept.
func (s *session) fail(start int, err error) {
	s.engine.Log.Debug("commands of a key-value store failed", "store", s.store, "error", err)
	s.out.b = s.out.b[:start]
	s.ran = max(s.ran, 1)
	for range s.ran {
		s.out.b = redcon.AppendError(s.out.b, failure(err))
	}
}

// run runs pending requests in the goroutine of their store, until replies are large.
func (s *session) run(st *store) {
	start := len(s.out.b)
	for _, r := range s.pending {
		s.runOne(st, r)
		s.ran++
		if len(s.out.b)-start > flushSize {
			return
		}
	}
}

// runOne runs a request. If its reply is too large, nothing of it is kept.
func (s *session) runOne(st *store, r request) {
	start := len(s.out.b)
	err := s.runCommands(st, r)
	if large := len(s.out.b) - start; err == nil && large > freeMemory {
		if err = s.engine.memory.take(large); err == nil {
			s.replies += large
		}
	}
	if err != nil {
		s.out.b = redcon.AppendError(s.out.b[:start], failure(err))
		st.conn.fail(err)
	}
}

// runCommands runs a command, or those of a transaction.
func (s *session) runCommands(st *store, r request) error {
	if r.name != "exec" {
		st.execute(&s.out, r)
		return nil
	}
	start := len(s.out.b)
	s.out.WriteArray(len(r.exec))
	for _, queued := range r.exec {
		st.execute(&s.out, queued)
		if len(s.out.b)-start > s.engine.Limits.Reply {
			return errReplyTooLarge
		}
	}
	return nil
}

// write sends the replies.
func (s *session) write() error {
	if len(s.out.b) == 0 {
		return nil
	}
	if err := s.net.SetWriteDeadline(time.Now().Add(s.engine.Limits.Stall)); err != nil {
		return err
	}
	_, err := s.net.Write(s.out.b)
	s.out.b = s.out.b[:0]
	if cap(s.out.b) > freeMemory {
		s.out.b = nil
	}
	s.engine.memory.give(s.replies)
	s.replies = 0
	return err
}
