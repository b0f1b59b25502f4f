// Package tail serves the live tail of webhooks: receipts and ended deliveries as server-sent events,
// in log order (package eventlog). It owns the tails' connections and has no tables.
//
// A connection has a position in the log. At the end of the log, its audience's feed (feed.go) serves
// it. An audience is everybody in an organization who gets the events in the same form: either
// viewers, who do not see credentials in headers, or all others. The feed reads each event once for
// all of the audience's connections to this process. A connection that is behind, because it resumes
// from an earlier position or reads slowly, reads the log by itself until it has caught up. Unsent
// events stay in the log, so we buffer nothing for slow readers, and any replica can continue from any
// position.
//
// We charge organizations for their connections, for the memory that these send from, and for their
// feeds' memory. Organizations also share the time for loading events and the bytes per second
// equally: many tails that are behind delay only their own organization's.
//
// A feed wakes when this process (Wake) or, through a notification, another replica commits events. It
// also looks for itself every second.
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
	// maxOpen bounds a process's connections. An organization may have three eighths of them.
	maxOpen = 3000
	// maxReads bounds the connections that look up their position in the log at the same time.
	maxReads = 4
	// Tails are for people and their tools, and must leave the machine to ingest: a tail that falls
	// behind catches up later. Loading events may take one part in loadShare of a core's time, with
	// pauses of at most maxPause. bytesPerSecond bounds the output of all connections together.
	loadShare      = 5
	loadBurst      = 50 * time.Millisecond
	maxPause       = time.Second
	bytesPerSecond = 16 << 20
	burstBytes     = 1 << 20
)

// audience names the people who get the same events in the same form.
type audience struct {
	orgID  string
	masked bool // without credentials in headers
}

func audienceOf(c *auth.Caller) audience { return audience{c.OrgID, webhook.MasksCredentials(c)} }

// Server serves tails. Make one with New.
type Server struct {
	Store *webhook.Store
	Log   *slog.Logger
	// Authorize returns the caller behind a request under way, or an error if they may no longer read
	// webhooks.
	Authorize func(r *http.Request) (*auth.Caller, error)
	// Connections has a slot for each connection. Memory holds the data they are about to send, and
	// Feeds the frames that feeds keep.
	Connections, Memory, Feeds *budget.Pool

	reads  *budget.Queue // has maxReads slots
	loads  *budget.Rate  // counts seconds
	output *budget.Rate  // counts bytes
	ids    atomic.Int64

	mu      sync.Mutex
	feeds   map[audience]*feed // while they have connections
	open    int
	revoked chan struct{} // closed and replaced when rights may have been taken away
	closed  chan struct{}
}

// New returns a server for a store's tails. They use up to the given memory, in bytes.
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

// Wake notes that events in these organizations were committed.
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

// Recheck makes every connection check its rights again. Call it whenever a right may have been taken
// away.
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

// enter counts a connection, and joins it to its audience's feed if it follows. The connection must
// leave later. enter returns Unavailable if too many are open, or the process is stopping.
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

// leave ends a connection, and the feed with its last connection.
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

// sleep waits, and reports whether ctx is still alive.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// load calls frames within the time share for loading.
func (s *Server) load(ctx context.Context, u unloaded) (loaded []frame, n int, err error) {
	err = s.limited(ctx, u.to.orgID, func() error {
		loaded, n, err = frames(ctx, s.Store, u)
		return err
	})
	return loaded, n, err
}

// limited runs an organization's query once the time share for loading allows it.
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

// read runs a query in one of the few slots for connections that are opening.
func (s *Server) read(ctx context.Context, orgID string, query func(q db.Querier) error) error {
	if err := s.reads.Enter(ctx, orgID, ""); err != nil {
		return err
	}
	defer s.reads.Leave(orgID)
	return query(s.Store.DB.Read(ctx))
}
