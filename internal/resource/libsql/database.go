package libsql

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"hash/maphash"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/budget"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/sqlite"
)

// token is a password's hash.
type token [sha256.Size]byte

func tokenOf(password string) token { return sha256.Sum256([]byte(password)) }

func (t token) equal(other token) bool { return subtle.ConstantTimeCompare(t[:], other[:]) == 1 }

// database is an open file with its connections. The first request creates it. It is closed when it has
// been idle or is deleted, or when the engine closes.
type database struct {
	engine *Engine
	org    string
	id     string
	path   string
	use    *use
	// schema counts changes to the schema.
	schema atomic.Uint64
	// writer has an element while a connection holds the write lock. slots has one for each connection
	// that serves a request which closes its stream.
	writer chan struct{}
	slots  chan struct{}
	// batch runs single statements that share commits. sharing knows which ones may.
	batch   sqlite.Batch[*conn]
	sharing *sharing

	mu       sync.Mutex
	closed   bool
	used     time.Time
	idle     []*conn
	streams  map[string]*stream // idle streams, by baton
	open     int                // number of streams
	sessions map[*session]bool
	// active counts sessions and streams, since both hold connections.
	active sync.WaitGroup
}

// session is a request that is using the database.
type session struct {
	db     *database
	token  token
	began  time.Time
	cancel context.CancelCauseFunc
}

func newDatabase(e *Engine, p *resource.Provisioned, path string) *database {
	d := &database{
		engine: e, org: p.OrgID, id: p.ID, path: path, use: e.usage.Of(p.OrgID, p.ID), used: e.now(),
		writer: make(chan struct{}, 1), slots: make(chan struct{}, e.limits.Connections),
		streams: map[string]*stream{}, sessions: map[*session]bool{},
		sharing: &sharing{alone: map[uint64]time.Time{}, seed: maphash.MakeSeed()},
	}
	d.batch = sqlite.Batch[*conn]{Acquire: d.acquire, Release: d.releaseShared, Queue: shareQueue, MaxTime: shareTime}
	d.batch.Start()
	return d
}

// log returns a logger that names the database and its organization.
func (d *database) log() *slog.Logger {
	return d.engine.Log.With("organization", d.org, "database", d.id)
}

// begin begins a session. It reports whether the database is open.
func (d *database) begin(ctx context.Context, t token) (context.Context, *session, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ctx, nil, false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s := &session{db: d, token: t, began: d.engine.now(), cancel: cancel}
	d.sessions[s] = true
	d.active.Add(1)
	return ctx, s, true
}

// end ends the session. You may call it more than once.
func (s *session) end() {
	s.cancel(nil)
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if !s.db.sessions[s] {
		return
	}
	delete(s.db.sessions, s)
	s.db.used = s.db.engine.now()
	s.db.active.Done()
}

// borrow waits for a connection from the pool.
func (d *database) borrow(ctx context.Context) (*conn, error) {
	timeout := time.NewTimer(d.engine.limits.Wait)
	defer timeout.Stop()
	busy := failf("BUSY", "all connections of the database are in use").withStatus(http.StatusServiceUnavailable)
	select {
	case d.slots <- struct{}{}:
	case <-timeout.C:
		return nil, busy
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return nil, busy
		}
		return nil, errClosed.withStatus(http.StatusServiceUnavailable)
	}
	c, err := d.connection()
	if err != nil {
		<-d.slots
	}
	return c, err
}

// connection returns an idle connection or opens a new one.
func (d *database) connection() (*conn, error) {
	slot := d.engine.connections.Charge(d.org, d.id)
	if !slot.Take(1) {
		return nil, failf("SERVER_BUSY", "the server has too many open connections").withStatus(http.StatusServiceUnavailable)
	}
	c := d.takeIdle()
	if c == nil {
		var err error
		if c, err = d.connect(); err != nil {
			slot.Release()
			return nil, err
		}
	}
	c.slot = slot
	c.ClearRowID() // it belongs to another client
	return c, nil
}

// takeIdle returns a connection that was kept, or nil.
func (d *database) takeIdle() *conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.idle)
	if n == 0 {
		return nil
	}
	c := d.idle[n-1]
	d.idle = d.idle[:n-1]
	c.slot.Release()
	return c
}

func (d *database) connect() (*conn, error) {
	c, err := connect(d)
	if err == nil {
		return c, nil
	}
	if _, missing := os.Stat(d.path); missing != nil {
		return nil, failf("UNAVAILABLE", "the file of the database is missing").withStatus(http.StatusServiceUnavailable)
	}
	return nil, err
}

// release rolls back and keeps the connection for the next client if it can be shared.
func (d *database) release(c *conn) {
	c.rollback()
	c.slot.Release()
	if !d.keep(c) {
		d.discard(c)
	}
}

// keep keeps a connection for later. It reports whether there was room.
func (d *database) keep(c *conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.private || d.closed || len(d.idle) >= d.engine.limits.Connections {
		return false
	}
	c.slot = d.engine.kept.Charge(d.org, d.id)
	if !c.slot.Take(1) {
		return false
	}
	d.idle = append(d.idle, c)
	return true
}

func (d *database) discard(c *conn) {
	if err := c.close(); err != nil {
		d.log().Warn("closing a database connection failed", "error", err)
	}
	c.slot.Release()
}

// openStream opens a busy stream.
func (d *database) openStream(t token) (*stream, error) {
	place := d.engine.streams.Charge(d.org, d.id)
	if !place.Take(1) || !d.countStream() {
		place.Release()
		return nil, failf("STREAM_LIMIT", "too many open streams: close transactions that are not needed any more").
			withStatus(http.StatusServiceUnavailable)
	}
	c, err := d.connection()
	if err != nil {
		d.streamGone(place)
		return nil, err
	}
	s := newStream(c, t)
	s.place = place
	s.busy <- struct{}{}
	return s, nil
}

func (d *database) countStream() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.open >= d.engine.limits.Streams {
		return false
	}
	d.open++
	d.active.Add(1)
	return true
}

func (d *database) streamGone(place *budget.Charge) {
	place.Release()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
	d.active.Done()
}

// take makes the baton's stream busy and uses up the baton. If a cursor is still sending, take waits for it.
func (d *database) take(ctx context.Context, baton string, t token) (*stream, error) {
	expired := failf("STREAM_EXPIRED", "the stream has expired, or its baton was used before").withStatus(http.StatusBadRequest)
	d.mu.Lock()
	s := d.streams[baton]
	if s == nil || !s.token.equal(t) {
		d.mu.Unlock()
		return nil, expired
	}
	delete(d.streams, baton)
	d.mu.Unlock()
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		d.mu.Lock()
		defer d.mu.Unlock()
		d.streams[baton] = s // so that it still expires
		return nil, expired
	}
	s.idle.Stop()
	if s.closed {
		<-s.busy
		return nil, expired
	}
	return s, nil
}

// announce gives a busy stream its next baton, before the response is complete. It returns "" if the
// stream cannot continue.
func (d *database) announce(s *stream) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || s.closed || s.pooled {
		return ""
	}
	baton := id.Secret(43)
	d.streams[baton] = s
	return baton
}

// put makes a busy stream idle, or closes it if nobody can continue it.
func (d *database) put(s *stream, baton string) {
	if baton == "" {
		s.closed = true
	}
	if s.closed {
		d.end(s, baton)
		return
	}
	left := d.engine.limits.StreamIdle
	if !s.began.IsZero() {
		left = min(left, d.engine.limits.Transaction-d.engine.now().Sub(s.began))
	}
	s.idle = time.AfterFunc(left, func() { d.expire(s, baton) })
	<-s.busy
}

// expire closes an idle stream, unless somebody has taken it.
func (d *database) expire(s *stream, baton string) {
	d.mu.Lock()
	current := d.streams[baton] == s
	delete(d.streams, baton)
	d.mu.Unlock()
	if current {
		d.finish(s)
	}
}

// finish closes a stream as soon as it is idle.
func (d *database) finish(s *stream) {
	s.busy <- struct{}{}
	if s.closed {
		<-s.busy
		return
	}
	s.idle.Stop()
	s.closed = true
	d.end(s, "")
}

// end closes a busy stream.
func (d *database) end(s *stream, baton string) {
	d.mu.Lock()
	delete(d.streams, baton)
	d.mu.Unlock()
	s.texts.Release()
	d.release(s.conn)
	d.streamGone(s.place)
	<-s.busy
}

// closeOthers ends the sessions and streams that used another token.
func (d *database) closeOthers(t token) {
	d.mu.Lock()
	for s := range d.sessions {
		if !s.token.equal(t) {
			s.cancel(errClosed)
		}
	}
	var stale []*stream
	for baton, s := range d.streams {
		if !s.token.equal(t) {
			stale = append(stale, s)
			delete(d.streams, baton)
		}
	}
	d.mu.Unlock()
	for _, s := range stale {
		d.finish(s)
	}
}

// cancelSince ends the sessions that began before t.
func (d *database) cancelSince(t time.Time, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.sessions {
		if s.began.Before(t) {
			s.cancel(cause)
		}
	}
}

// largeLog is the size in bytes above which we truncate a write-ahead log when the disk is almost full.
const largeLog = 4 << 20

// truncateLog frees the write-ahead log's space, unless somebody is writing.
func (d *database) truncateLog() {
	info, err := os.Stat(d.path + "-wal")
	if err != nil || info.Size() < largeLog {
		return
	}
	select {
	case d.writer <- struct{}{}:
		defer func() { <-d.writer }()
	default:
		return
	}
	c, err := d.connection()
	if err != nil {
		return
	}
	if err := c.truncateLog(); err != nil {
		d.log().Warn("truncating the log of a database failed", "error", err)
	}
	d.release(c)
}

// closeIdle closes the database if it has been unused since a time. It reports whether the database is
// closed.
func (d *database) closeIdle(since time.Time) bool {
	d.mu.Lock()
	idle := len(d.sessions) == 0 && d.open == 0 && d.used.Before(since)
	d.closed = d.closed || idle
	d.mu.Unlock()
	if idle {
		d.close()
	}
	return idle
}

// closeConnections closes the idle connections.
func (d *database) closeConnections() {
	d.mu.Lock()
	idle := d.idle
	d.idle = nil
	d.mu.Unlock()
	for _, c := range idle {
		d.discard(c)
	}
}

// close interrupts all sessions and rolls back all streams. When it returns, the file is closed.
func (d *database) close() {
	d.mu.Lock()
	d.closed = true
	for s := range d.sessions {
		s.cancel(errClosed)
	}
	streams := slices.Collect(maps.Values(d.streams))
	clear(d.streams)
	d.mu.Unlock()
	for _, s := range streams {
		d.finish(s)
	}
	d.closeConnections()
	d.active.Wait()
	d.batch.Close()
}
