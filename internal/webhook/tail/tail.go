// Package tail serves the live tail of webhooks: receipts and ended deliveries as server-sent events,
// in the order in which they are in the log (package eventlog).
//
// A connection has a position in that log. At the end of the log it is served by the feed of its
// organization (feed.go), which reads each event once for all connections of this process. A
// connection that is behind, because it resumes from an earlier position or reads slowly, reads the
// log by itself until it has caught up. Whatever a connection has not been sent stays in the log, so
// that nothing is held for slow readers, and any replica can go on at any position.
//
// Feeds are woken when events are committed in this process (Wake) or, by a notification, on another
// replica, and look for themselves every second.
package tail

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/webhook"
	"steward/internal/webhook/eventlog"
)

const (
	// maxOpen bounds the connections of a process, and maxOrgOpen those of one organization.
	maxOpen    = 2000
	maxOrgOpen = 1000
	// maxReads is how many connections look for their position in the log at the same time.
	maxReads = 4
	// Tails are for people and their tools, and must leave the machine to ingest: what falls behind
	// catches up later. Loading events may take one part in loadShare of the time of a core, with
	// pauses of at most maxPause, and bytesPerSecond is what all connections together may send.
	loadShare      = 5
	maxPause       = time.Second
	bytesPerSecond = 16 << 20
	burstBytes     = 1 << 20
)

// Server serves tails. It must be made by New.
type Server struct {
	Store *webhook.Store
	Log   *slog.Logger
	// Authorize returns an error if the sender of a request that is being served may no longer read
	// webhooks.
	Authorize func(r *http.Request) error

	reads  chan struct{} // a semaphore of maxReads
	loads  chan struct{} // a semaphore of one, also held while others pause
	output *rate.Limiter

	mu      sync.Mutex
	feeds   map[string]*feed // by organization, while they have connections
	open    int
	orgOpen map[string]int // by organization
	revoked chan struct{}  // closed and replaced when rights may have been taken away
	closed  chan struct{}
}

// New returns a server of the tails of a store.
func New(s *webhook.Store, log *slog.Logger) *Server {
	t := &Server{
		Store: s, Log: log, reads: make(chan struct{}, maxReads), loads: make(chan struct{}, 1),
		output: rate.NewLimiter(bytesPerSecond, burstBytes),
		feeds:  map[string]*feed{}, orgOpen: map[string]int{}, revoked: make(chan struct{}), closed: make(chan struct{}),
	}
	s.DB.Watch(webhook.LogChanged, t.wakeAll)
	return t
}

// Wake notes that events of organizations were committed.
func (s *Server) Wake(orgIDs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, orgID := range orgIDs {
		if f := s.feeds[orgID]; f != nil {
			f.signal()
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

// enter counts a connection, which has to leave, and returns the feed of its organization if it
// follows that. It returns Unavailable if there are too many, or the process is stopping.
func (s *Server) enter(orgID, hook string, follow bool) (*feed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return nil, errs.Unavailablef(nil, "the server is stopping")
	}
	if s.open >= maxOpen || s.orgOpen[orgID] >= maxOrgOpen {
		return nil, errs.Unavailablef(nil, "too many tails are open")
	}
	s.open++
	s.orgOpen[orgID]++
	if !follow {
		return nil, nil
	}
	f := s.feeds[orgID]
	if f == nil {
		ctx, stop := context.WithCancel(context.Background())
		f = newFeed(s, orgID, stop)
		s.feeds[orgID] = f
		go f.run(ctx)
	}
	f.join(hook)
	return f, nil
}

// leave ends a connection, and with the last one the feed of its organization.
func (s *Server) leave(f *feed, orgID, hook string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	s.orgOpen[orgID]--
	if s.orgOpen[orgID] == 0 {
		delete(s.orgOpen, orgID)
	}
	if f != nil && f.part(hook) {
		f.stop()
		delete(s.feeds, f.orgID)
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
func (s *Server) load(ctx context.Context, orgID string, events []eventlog.Event, missing gaps, limit int) (loaded []frame, n int, err error) {
	err = s.limited(ctx, func() error {
		loaded, n, err = frames(ctx, s.Store, orgID, events, missing, limit)
		return err
	})
	return loaded, n, err
}

// limited runs a query when the share of the time that queries may take allows it.
func (s *Server) limited(ctx context.Context, query func() error) error {
	select {
	case s.loads <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	began := time.Now()
	err := query()
	time.AfterFunc(min((loadShare-1)*time.Since(began), maxPause), func() { <-s.loads })
	return err
}

// read runs a query with one of the few places for connections that are being opened.
func (s *Server) read(ctx context.Context, query func(q db.Querier) error) error {
	select {
	case s.reads <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.reads }()
	return query(s.Store.DB.Read(ctx))
}
