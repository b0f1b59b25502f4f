package embedkv

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nalgeon/redka"
	"github.com/tidwall/redcon"

	"steward/internal/disk"
)

// store is an open store. Its goroutine runs all that concerns its file.
type store struct {
	conn   *conn
	red    *redka.DB
	handle func(redcon.Conn, redcon.Command)
	log    *slog.Logger
	disk   *disk.Space

	jobs  chan *job
	quit  chan struct{}
	ended chan struct{}

	// mu guards what interrupt needs.
	mu sync.Mutex
	// started is when the current command began; zero if none runs.
	started time.Time
	// cancel interrupts commands when it is closed.
	cancel    chan struct{}
	cancelled bool
}

// job is work for a store.
type job struct {
	// run runs commands. Their effects may be undone until end is called.
	run func(*store)
	// size is about the number of bytes that run changes.
	size int
	// err is the reason why nothing of the job, and of all others in its batch, was kept.
	err  error
	done chan struct{}
}

// A batch ends with the job that exceeds one of these.
const (
	maxBatch      = 256
	maxBatchBytes = 8 << 20
)

// expiredKeys is how many expired keys are deleted at once. If there are more, other commands run before
// the next ones are.
const (
	expiredKeys = 500
	expirePause = 10 * time.Millisecond
)

var errClosed = errors.New("ERR the store is closed")

// openStore opens the file of a store and starts its goroutine.
func (e *Engine) openStore(id string) (*store, error) {
	db, err := connect(filepath.Join(e.dir(id), fileName), e.Limits.Size)
	if err != nil {
		return nil, fmt.Errorf("open key-value store: %w", err)
	}
	c := &conn{db: db, memory: e.Memory.Charge("", id), reply: e.Limits.Reply}
	pool := sql.OpenDB(connector{c})
	pool.SetMaxOpenConns(1)
	red, err := redka.OpenReadDB(pool, redkaOptions())
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("open key-value store: %w", err)
	}
	pool.SetMaxOpenConns(1) // redka has raised it
	handle, err := handlerOf(red)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	s := &store{
		conn: c, red: red, handle: handle, log: e.Log.With("store", id), disk: e.Disk,
		jobs: make(chan *job), quit: make(chan struct{}), ended: make(chan struct{}),
	}
	s.renew()
	go s.loop()
	return s, nil
}

// do runs a job in the goroutine of the store and waits until its effects are on disk. It returns why
// nothing of it was kept.
func (s *store) do(j *job) error {
	select {
	case s.jobs <- j:
		<-j.done
		return j.err
	case <-s.quit:
		return errClosed
	}
}

// loop runs jobs until close.
func (s *store) loop() {
	defer close(s.ended)
	expire := time.NewTicker(time.Second)
	defer expire.Stop()
	for {
		select {
		case <-s.quit:
			return
		case j := <-s.jobs:
			s.batch(j)
		case <-expire.C:
			pause := time.Second
			if s.deleteExpired() {
				pause = expirePause
			}
			expire.Reset(pause)
		}
	}
}

// batch runs a job and all others that wait, in one transaction. Jobs that come before its first
// change do not wait for it to end.
func (s *store) batch(j *job) {
	var waiting []*job
	size := 0
	for j != nil {
		j.run(s)
		if !s.conn.open {
			j.err = nil
			j.done <- struct{}{}
		} else {
			waiting = append(waiting, j)
			size += j.size
		}
		if j = nil; len(waiting) < maxBatch && size < maxBatchBytes && s.conn.lost == nil {
			j = s.next()
		}
	}
	err := s.conn.commit()
	if err != nil {
		s.log.Warn("commit of a key-value store failed", "error", err)
	}
	for _, j := range waiting {
		j.err = err
		j.done <- struct{}{}
	}
}

// next returns a job that waits, or nil.
func (s *store) next() *job {
	select {
	case j := <-s.jobs:
		return j
	default:
		return nil
	}
}

// command runs a command of redka. Errors of the file, and panics of redka, become replies.
func (s *store) command(r *reply, cmd redcon.Command) {
	s.start()
	defer s.stop()
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("command panicked", "command", string(cmd.Args[0]), "panic", v, "stack", string(debug.Stack()))
			r.WriteError("ERR internal error")
			r.context = nil
		}
	}()
	s.handle(r, cmd)
}

// start begins the time and the memory of a command.
func (s *store) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = time.Now()
}

// stop ends the time and the memory of a command.
func (s *store) stop() {
	s.mu.Lock()
	s.started = time.Time{}
	cancelled := s.cancelled
	s.mu.Unlock()
	if cancelled {
		s.renew()
	}
	s.conn.release()
}

// renew makes the connection usable after an interrupt.
func (s *store) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = make(chan struct{})
	s.cancelled = false
	s.conn.db.SetInterrupt(s.cancel)
}

// interrupt ends the current command if it has run longer than a limit.
func (s *store) interrupt(limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started.IsZero() && !s.cancelled && time.Since(s.started) > limit {
		s.cancelled = true
		close(s.cancel)
	}
}

// deleteExpired deletes some expired keys, which redka does not show any more. It reports whether there
// may be more.
func (s *store) deleteExpired() bool {
	n, err := s.red.Key().DeleteExpired(expiredKeys)
	if err = errors.Join(err, s.conn.commit()); err != nil {
		s.log.Warn("delete expired keys", "error", err)
		return false
	}
	return n == expiredKeys
}

// flush deletes all keys. redka's own way also rebuilds and checks the file, which a transaction
// forbids. Tables of values are emptied first: without triggers SQLite does that at once.
func (s *store) flush() error {
	if err := s.conn.begin(); err != nil {
		return err
	}
	for _, table := range []string{"rstring", "rhash", "rset", "rzset", "rlist", "rkey"} {
		if err := s.conn.exec("delete from " + table); err != nil {
			return err
		}
	}
	return nil
}

// close ends the goroutine after its current batch and closes the file.
func (s *store) close() {
	close(s.quit)
	<-s.ended
	s.conn.db.SetInterrupt(nil)
	if err := s.red.Close(); err != nil {
		s.log.Warn("close key-value store", "error", err)
	}
}
