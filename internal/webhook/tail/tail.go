// Package tail serves the live tail of webhooks: receipts and ended deliveries as server-sent events, in the
// order in which they are in the log (package eventlog). It owns the connections of tails and has no tables.
//
// A connection has a position in that log. At the end of the log it is served by the feed of its
// audience (feed.go), which reads each event once for all connections of this process that get it in the
// same form: viewers, who do not see credentials in headers, and all others of an organization. A
// connection that is behind, because it resumes from an earlier position or reads slowly, reads the
// log by itself until it has caught up. Whatever a connection has not been sent stays in the log, so
// that nothing is held for slow readers, and any replica can go on at any position.
//
// Connections, the memory of what they send, and that of feeds are charged to their organizations, which
// also share the time for loading events and the bytes per second equally: many tails that are behind
// delay those of their own organization only.
//
// Feeds are woken when events are committed in this process (Wake) or, by a notification, on another
// replica, and look for themselves every second.
package tail

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/webhook"
)

const (
	// maxOpen is the number of connections of a process. An organization has three eighths of them.
	maxOpen = 3000
	// maxReads is how many connections look for their position in the log at the same time.
	maxReads = 4
	// Tails are for people and their tools, and must leave the machine to ingest: what falls behind
	// catches up later. Loading events may take one part in loadShare of the time of a core, with
	// pauses of at most maxPause, and bytesPerSecond is what all connections together may send.
	loadShare      = 5
	loadBurst      = 50 * time.Millisecond
	maxPause       = time.Second
	bytesPerSecond = 16 << 20
	burstBytes     = 1 << 20
)

// audience are those who get the same events in the same form.
type audience struct {
	orgID  string
	masked bool // credentials in headers
}

func audienceOf(c *auth.Caller) audience { return audience{c.OrgID, webhook.MasksCredentials(c)} }

// Server serves tails. It must be made by New.
type Server struct {
	Store *webhook.Store
	Log   *slog.Logger
	// Authorize returns who sends a request that is being served, or an error if they may no longer read
	// webhooks.
	Authorize func(r *http.Request) (*auth.Caller, error)
	// Connections has a slot for each connection. Memory is that of what they are about to send, and
	// Feeds that of the frames that feeds keep.
	Connections, Memory, Feeds *budget.Pool

	reads  *budget.Queue // has maxReads slots
	loads  *budget.Rate  // of seconds
	output *budget.Rate  // of bytes
	ids    atomic.Int64

	mu      sync.Mutex
	feeds   map[audience]*feed // while they have connections
	open    int
	revoked chan struct{} // closed and replaced when rights may have been taken away
	closed  chan struct{}
}

// New returns a server of the tails of a store, which use so many bytes of memory.
func New(s *webhook.Store, log *slog.Logger, memory int64) *Server {
	t := &Server{
		Store: s, Log: log,
		Connections: budget.NewPool(maxOpen, 16),
		Memory:      budget.NewPool(memory/2, loadBytes),
		Feeds:       budget.NewPool(memory/2, loadBytes/2),
		reads:       budget.NewQueue(maxReads),
		loads:       budget.NewRate(1.0/loadShare, loadBurst.Seconds()),
		output:      budget.NewRate(bytesPerSecond, burstBytes),
		feeds:       map[audience]*feed{}, revoked: make(chan struct{}), closed: make(chan struct{}),
	}
	s.DB.Watch(webhook.LogChanged, t.wakeAll)
	return t
}

// Wake notes that events of organizations were committed.
func (s *Server) Wake(orgIDs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, orgID := range orgIDs {
		for _, masked := range []bool{false, true} {
			if f := s.feeds[audience{orgID, masked}]; f != nil {
				f.signal()
			}
		}
	}
}

func (s *Server) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.feeds {
		f.signal()
	}
}

// Recheck has every connection check again whether it is allowed. It must be called when a right may
// have been taken away.
func (s *Server) Recheck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.revoked)
	s.revoked = make(chan struct{})
}

func (s *Server) rechecked() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revoked
}

// Open returns the number of open connections.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// Close ends all connections and refuses new ones.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isClosed() {
		close(s.closed)
	}
}

func (s *Server) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// enter counts a connection, which has to leave, and sets the feed of its organization if it follows
// that. It returns Unavailable if there are too many, or the process is stopping.
func (s *Server) enter(c *connection, follow bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return errs.Unavailablef(nil, "the server is stopping")
	}
	c.slot = s.Connections.Charge(c.orgID, "")
	if !c.slot.Take(1) {
		return errs.Unavailablef(nil, "too many tails are open")
	}
	c.memory = s.Memory.Charge(c.orgID, strconv.FormatInt(s.ids.Add(1), 10))
	s.open++
	if !follow {
		return nil
	}
	f := s.feeds[c.audience]
	if f == nil {
		ctx, stop := context.WithCancel(context.Background())
		f = newFeed(s, c.audience, stop)
		s.feeds[c.audience] = f
		go f.run(ctx)
	}
	f.join(c.hook)
	c.feed = f
	return nil
}

// leave ends a connection, and with the last one the feed of its organization.
func (s *Server) leave(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	c.slot.Release()
	c.memory.Release()
	if c.feed != nil && c.feed.part(c.hook) {
		c.feed.stop()
		delete(s.feeds, c.audience)
	}
}

// sleep waits, and reports whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// load calls frames within the share of the time that loading may take.
func (s *Server) load(ctx context.Context, u unloaded) (loaded []frame, n int, err error) {
	err = s.limited(ctx, u.to.orgID, func() error {
		loaded, n, err = frames(ctx, s.Store, u)
		return err
	})
	return loaded, n, err
}

// limited runs a query of an organization when the share of the time that queries may take allows it.
func (s *Server) limited(ctx context.Context, orgID string, query func() error) error {
	if err := s.loads.Enter(ctx, orgID); err != nil {
		return err
	}
	began := time.Now()
	defer func() {
		took := time.Since(began)
		s.loads.Leave(min(took, (took+maxPause)/loadShare).Seconds())
	}()
	return query()
}

// read runs a query with one of the few places for connections that are being opened.
func (s *Server) read(ctx context.Context, orgID string, query func(q db.Querier) error) error {
	if err := s.reads.Enter(ctx, orgID, ""); err != nil {
		return err
	}
	defer s.reads.Leave(orgID)
	return query(s.Store.DB.Read(ctx))
}
