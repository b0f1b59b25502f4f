package embedkv

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/tidwall/redcon"

	"steward/internal/budget"
)

// session is a connection of a client.
type session struct {
	engine  *Engine
	net     net.Conn
	address string // as an owner
	id      int64
	began   time.Time
	in      requests
	out     reply

	// store is the id of the store that the client has authenticated for, or "", and hash that of the
	// password.
	store string
	hash  [sha256.Size]byte
	// slot is charged to the address, or to the store that the client has authenticated for. requests,
	// rows and replies are the memory of what was received, of what the current command reads, and of
	// what is to be sent.
	slot, requests, rows, replies *budget.Charge
	// inside is whether a request is being read, and paced its reader once it is waited for.
	inside   bool
	paced    io.Reader
	failures int
	name     string
	quit     bool

	// pending are requests that have been read and not run, ran how many of them the current job has.
	pending []request
	ran     int
	job     job
	// queue are the commands since MULTI; nil if there was none.
	queue *queue
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
const flushSize = freeMemory

func (e *Engine) newSession(c net.Conn) *session {
	s := &session{engine: e, net: c, id: e.ids.Add(1), began: time.Now()}
	s.address = budget.Address(c.RemoteAddr().String())
	s.slot = e.Unauthenticated.Charge(s.address, "")
	s.own(s.address, "")
	s.in = requests{
		in: bufio.NewReader(s), begun: s.beginRequest, grow: s.grow,
		args: loginArgs, bytes: loginBytes,
	}
	s.job = job{run: s.run, done: make(chan struct{}, 1)}
	return s
}

// own has memory charged to an owner from now on. Replies to what came before are sent first.
func (s *session) own(org, part string) {
	if s.replies != nil {
		_ = s.write() // the next read fails too
		s.replies.Release()
		s.requests.Release()
	}
	s.requests = s.engine.Memory.Charge(org, part)
	s.rows = s.engine.Memory.Charge(org, part)
	s.replies = s.engine.Memory.Charge(org, part)
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
		s.inside = false
		s.paced = nil
		s.handle(request{name: strings.ToLower(string(clip(cmd.Args[0], maxEcho))), cmd: cmd}, size)
	}
	_ = s.flush()
}

func (s *session) close() {
	_ = s.net.Close()
	s.engine.sessions.leave(s)
	s.requests.Release()
	s.replies.Release()
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
	if s.store != "" && s.inside {
		return s.readPaced(b)
	}
	deadline := time.Now().Add(s.engine.Limits.Idle)
	if s.store == "" {
		deadline = s.began.Add(s.engine.Limits.Login)
	}
	if err := s.net.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	return s.net.Read(b)
}

// readPaced reads the rest of a request.
func (s *session) readPaced(b []byte) (int, error) {
	if s.paced == nil {
		s.paced = s.engine.Limits.Pace.Reader(s.net, s.net.SetReadDeadline)
	}
	return s.paced.Read(b)
}

// beginRequest begins the time in which the rest of a request must come.
func (s *session) beginRequest() { s.inside = true }

// grow charges memory of a request.
func (s *session) grow(n int) error { return take(s.requests, n) }

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
		s.requests.Release()
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
	st.conn.memory = s.rows
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
		err = take(s.replies, large)
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
	s.replies.Release()
	return err
}
