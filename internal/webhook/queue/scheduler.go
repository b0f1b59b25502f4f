package queue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/db"
	"steward/internal/disk"
	"steward/internal/errs"
	"steward/internal/stamp"
)

const (
	// pollEvery is how often we search the queue for due rows that nobody told us about: retries, and
	// deliveries that other replicas accepted.
	pollEvery = 250 * time.Millisecond
	// idlePollEvery replaces it while nothing is due, if other replicas notify us.
	idlePollEvery = time.Second
	// maxPollPause bounds the pause after a search that took long.
	maxPollPause = 5 * time.Second
	// readers is how many queues we read at a time.
	readers = 4
	// readTimeout bounds one read, so that a queue that cannot be read does not occupy a reader.
	readTimeout = 10 * time.Second
	// gracePeriod is how long attempts under way may take once the process stops.
	gracePeriod = 10 * time.Second
	// logEvery limits how often we log background errors: while the database is unavailable, every
	// poll fails.
	logEvery = 10 * time.Second
)

// Deliveries knows what the queue's rows stand for. It is a webhook.Sender.
type Deliveries interface {
	// Load fills in a destination's tasks, so that they can be sent, and returns the destination's
	// limits. It leaves ReceiptKey empty in a task whose row is gone or malformed.
	Load(ctx context.Context, destinationID string, tasks []*Task) (Limits, error)
	// Attempt makes one attempt. It returns when ctx ends. An error means that no attempt was made, or
	// that it was cut off.
	Attempt(ctx context.Context, t *Task) (Result, error)
	// Finish writes in one transaction how attempts ended. It skips results unless the destination is
	// leased to this process and the delivery is pending. It returns the results it wrote, and
	// separately those whose delivery another transaction has locked.
	Finish(ctx context.Context, results []Result) (counted, locked []Result, err error)
}

// Scheduler sends deliveries. The queue table is its only source of work: it discovers destinations
// with due rows, leases them, reads their queues in order, sends the deliveries and writes the
// results. Discovering, leasing and reading run in separate goroutines, so that a slow query delays
// nothing else.
type Scheduler struct {
	Store      *Store
	Deliveries Deliveries
	Log        *slog.Logger
	// Exclusive reports whether no other process uses the database. Then any leases found at the start
	// come from a process that died.
	Exclusive bool
	// Disk is the volume that holds the database, or nil if the database is on another server. While
	// it is almost full, due deliveries wait because we could not store their results.
	Disk *disk.Space

	lanes    *lanes
	spawn    func(*Task) // starts an attempt
	results  *resultQueue
	poll     chan struct{}
	noLease  chan []string   // destinations without a row in webhook_leases
	cut      context.Context // ends attempts when the grace period is over
	lastLog  atomic.Int64
	giveUp   atomic.Int64 // when to give up results that cannot be written; 0 while the process runs
	oldestAt atomic.Int64 // the oldest due row's due time, 0 for none
}

// NewScheduler returns a scheduler. At any time it has at most the given number of open sockets, and
// about that many bytes of payload in memory.
func NewScheduler(s *Store, d Deliveries, sockets int, bytes int64) *Scheduler {
	c := &Scheduler{
		Store: s, Deliveries: d, Log: slog.Default(), lanes: newLanes(s.Now, sockets, bytes),
		poll: make(chan struct{}, 1), noLease: make(chan []string, 1),
	}
	c.spawn = func(t *Task) { go c.deliver(t) }
	c.lanes.later = func(n *lane, after time.Duration) {
		time.AfterFunc(after, func() { c.start(c.lanes.resume(n)) })
	}
	c.results = newResultQueue(c)
	s.DB.Watch(changed, func() { signal(c.poll) })
	return c
}

// Wake notes that rows for these destinations were committed.
func (s *Scheduler) Wake(destinationIDs []string) { s.lanes.wake(destinationIDs) }

// Run works until ctx ends. Attempts under way may then finish within the grace period; everything
// else stays in the queue.
func (s *Scheduler) Run(ctx context.Context) {
	var cut context.CancelFunc
	s.cut, cut = context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	if s.Exclusive {
		if err := s.Store.DropLeases(ctx); err != nil {
			s.logError("drop the leases of an earlier process", err) // never mind: they expire
		}
	}
	go s.results.run()
	var loops sync.WaitGroup
	loops.Go(func() { s.discoverLoop(ctx) })
	loops.Go(func() { s.leaseLoop(ctx) })
	loops.Go(func() { s.addLoop(ctx) })
	loops.Go(func() { s.recoverLoop(ctx) })
	for range readers {
		loops.Go(func() { s.readLoop(ctx) })
	}
	<-ctx.Done()
	s.lanes.close()
	s.giveUp.Store(time.Now().Add(2 * gracePeriod).UnixNano())
	loops.Wait()
	if !s.waitForSending(gracePeriod) {
		cut()
		s.waitForSending(gracePeriod)
	}
	s.results.close()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), gracePeriod)
	defer cancel()
	if err := s.Store.ReleaseLeases(bounded); err != nil {
		s.logError("release leases", err)
	}
}

// waitForSending reports whether all attempts ended in time.
func (s *Scheduler) waitForSending(limit time.Duration) bool {
	done := make(chan struct{})
	go func() {
		s.lanes.attempts.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// discoverLoop searches the queue for due rows at every poll, and whenever another replica notifies
// us.
func (s *Scheduler) discoverLoop(ctx context.Context) {
	earliest, pause := time.Now(), pollEvery
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(time.Until(earliest), pause)):
		case <-s.poll:
			if !sleep(ctx, time.Until(earliest)) {
				return
			}
		}
		// The more destinations have rows, the longer the search takes: 70 ms for 10,000. It may use a
		// tenth of the time.
		began := time.Now()
		pause = s.discover(ctx)
		earliest = time.Now().Add(min(9*time.Since(began), maxPollPause))
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

// discover searches the queue once, and returns the pause before the next search.
func (s *Scheduler) discover(ctx context.Context) (pause time.Duration) {
	pause = pollEvery
	if s.Store.DB.Notifies() {
		pause = idlePollEvery
	}
	heads, err := s.Store.Heads(ctx, pause)
	if err != nil {
		s.logError("search the queue", err)
		return pollEvery
	}
	var oldest stamp.Time
	own := heads[:0]
	var missing []string
	now := stamp.Of(s.Store.Now())
	for _, h := range heads {
		pause = min(pause, max(h.DueAt.Sub(now), pollEvery))
		if h.DueAt > now {
			continue
		}
		if oldest == 0 || h.DueAt < oldest {
			oldest = h.DueAt
		}
		if !h.Leased {
			own = append(own, h)
		}
		if h.noLease {
			missing = append(missing, h.DestinationID)
		}
	}
	s.oldestAt.Store(int64(oldest))
	s.addLeases(missing)
	s.start(s.lanes.discovered(own))
	return pause
}

// addLeases asks addLoop for lease rows, unless it is busy.
func (s *Scheduler) addLeases(destinationIDs []string) {
	if len(destinationIDs) == 0 {
		return
	}
	select {
	case s.noLease <- destinationIDs:
	default:
	}
}

// addLoop adds lease rows. It is separate from leaseLoop because an INSERT waits if another
// transaction has inserted the same row and not committed yet.
func (s *Scheduler) addLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case missing := <-s.noLease:
			if err := s.Store.addLeases(ctx, missing); err != nil {
				s.logError("add leases", err)
			}
		}
	}
}

// leaseLoop takes the leases that lanes want, and renews those in use.
func (s *Scheduler) leaseLoop(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.lanes.leases:
		case <-tick.C:
			s.lanes.expire()
		}
		s.takeLeases(ctx)
	}
}

func (s *Scheduler) takeLeases(ctx context.Context) {
	wanted := s.lanes.leasesToTake()
	if len(wanted) == 0 {
		return
	}
	until, held, err := s.Store.Lease(ctx, wanted)
	if err != nil {
		s.logError("take leases", err)
		return
	}
	s.lanes.leased(wanted, held, until)
}

// readLoop reads lanes' queues, one after the other.
func (s *Scheduler) readLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.lanes.reads:
		}
		for n, p := s.lanes.nextRead(); n != nil; n, p = s.lanes.nextRead() {
			s.read(ctx, n, p)
		}
	}
}

// read reads a lane's queue. It skips rows in flight, which stay in the queue until their results are
// written.
func (s *Scheduler) read(ctx context.Context, n *lane, p Portion) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	rows, err := s.due(ctx, n, p)
	if err != nil {
		s.lanes.failRead(n, nil)
		s.logError("read the queue of a destination", err)
		return
	}
	s.load(ctx, n, rows, len(rows) == p.Limit)
}

func (s *Scheduler) due(ctx context.Context, n *lane, p Portion) ([]Row, error) {
	if err := s.Disk.Room(); err != nil {
		return nil, err
	}
	return s.Store.Due(ctx, n.id, p)
}

// load reads the deliveries for rows that are not in flight, and starts those that can be sent.
func (s *Scheduler) load(ctx context.Context, n *lane, rows []Row, more bool) {
	chosen, left := s.lanes.choose(n, rows)
	limits, err := s.Deliveries.Load(ctx, n.id, chosen)
	if err != nil {
		s.lanes.failRead(n, chosen)
		s.logError("read the deliveries of a destination", err)
		return
	}
	s.start(s.lanes.endRead(n, readEnd{tasks: chosen, limits: limits, more: more, left: left}))
}

// start sends each task in its own goroutine.
func (s *Scheduler) start(tasks []*Task) {
	for _, t := range tasks {
		s.spawn(t)
	}
}

// deliver makes one attempt and passes on its result. If we did not try the delivery, or cut it off
// because the process stops, it stays in the queue.
func (s *Scheduler) deliver(t *Task) {
	defer s.lanes.attempts.Done()
	result, err := s.Deliveries.Attempt(s.cut, t)
	next := s.lanes.sent(t, int64(len(result.Response)))
	if err != nil || !s.results.put(ended{task: t, result: result}) {
		s.lanes.untried(t)
	}
	s.start(next)
}

// logError logs a background error, if there is one, at most once per logEvery.
func (s *Scheduler) logError(what string, err error) {
	now := time.Now().UnixNano()
	last := s.lastLog.Load()
	if err == nil || errors.Is(err, context.Canceled) || now-last < int64(logEvery) || !s.lastLog.CompareAndSwap(last, now) {
		return
	}
	s.Log.Error("deliveries are delayed", "step", what, "error", err)
}

// isUnavailable reports whether to try again. The results may be stored already, but writing them
// twice does no harm.
func isUnavailable(err error) bool {
	return errs.KindOf(err) == errs.Unavailable || db.IsOutcomeUnknown(err)
}

// Stats are figures for an operator.
type Stats struct {
	OldestDue time.Duration // how long the oldest due delivery has been waiting
	Bytes     int64         // in memory, to send or to write
	Sockets   int           // in use
}

// Stats returns this process's figures.
func (s *Scheduler) Stats() Stats {
	stats := Stats{}
	if at := stamp.Time(s.oldestAt.Load()); at != 0 {
		stats.OldestDue = max(0, stamp.Of(s.Store.Now()).Sub(at))
	}
	stats.Bytes, stats.Sockets = s.lanes.inUse()
	return stats
}
