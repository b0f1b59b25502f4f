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
	// pollEvery is how often the queue is searched for due rows that this process was not told of:
	// retries, and what other replicas accepted.
	pollEvery = 250 * time.Millisecond
	// idlePollEvery takes its place while nothing is due, if other replicas tell of what they accept.
	idlePollEvery = time.Second
	// maxPollPause bounds the pause between two searches that take long.
	maxPollPause = 5 * time.Second
	// readers is how many queues are read at the same time.
	readers = 4
	// readTimeout bounds one read, so that a queue that cannot be read does not occupy a reader.
	readTimeout = 10 * time.Second
	// gracePeriod is how long deliveries that are being sent may take once the process stops.
	gracePeriod = 10 * time.Second
	// logEvery bounds how often an error of the background is logged: while the database is
	// unavailable each poll fails.
	logEvery = 10 * time.Second
)

// Scheduler has deliveries sent. The queue table is its only source of work: it discovers destinations
// with due rows, leases them, reads their queues in order, has sent what it read, and has the results
// written. Discovering, leasing and reading have goroutines of their own, so that a slow query
// delays nothing else.
type Scheduler struct {
	Store *Store
	// Load sets what tasks of a destination need to be sent, and returns the destination's concurrency.
	// A task whose row is gone or malformed keeps an empty ReceiptKey.
	Load func(ctx context.Context, destinationID string, tasks []*Task) (concurrency int, err error)
	// Attempt makes one attempt. It returns when ctx ends. An error means that it was not made, or was
	// cut off.
	Attempt func(ctx context.Context, t *Task) (Result, error)
	// Finish writes how attempts ended, in one transaction: those whose destination is leased to this
	// process, and whose delivery is pending. It returns them, and those whose delivery another
	// transaction has locked.
	Finish func(ctx context.Context, results []Result) (counted, locked []Result, err error)
	Log    *slog.Logger
	// Exclusive says that no other process uses the database, so that leases found at the start are
	// those of a process that died.
	Exclusive bool
	// Disk is that of the database, unless it is elsewhere. While it is almost full, what is due waits:
	// its results could not be stored.
	Disk *disk.Space

	lanes    *lanes
	spawn    func(*Task) // starts an attempt
	results  *resultQueue
	poll     chan struct{}
	noLease  chan []string   // destinations without a row in webhook_leases
	cut      context.Context // ends attempts when the grace period is over
	lastLog  atomic.Int64
	giveUp   atomic.Int64 // when results that cannot be written are given up; 0 while the process runs
	oldestAt atomic.Int64 // the due time of the oldest due row, 0 for none
}

// NewScheduler returns a scheduler that uses up to so many sockets at a time, and about so many bytes
// of memory for what it sends.
func NewScheduler(s *Store, sockets int, bytes int64) *Scheduler {
	c := &Scheduler{Store: s, lanes: newLanes(s.Now, sockets, bytes), poll: make(chan struct{}, 1), noLease: make(chan []string, 1)}
	c.spawn = func(t *Task) { go c.deliver(t) }
	c.results = newResultQueue(c.finish)
	s.DB.Watch(changed, func() { signal(c.poll) })
	return c
}

// Wake notes that rows of these destinations were committed.
func (s *Scheduler) Wake(destinationIDs []string) { s.lanes.wake(destinationIDs) }

// Run works until ctx ends. Then what is being sent may finish within the grace period; everything
// else stays in the queue.
func (s *Scheduler) Run(ctx context.Context) {
	var cut context.CancelFunc
	s.cut, cut = context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	if s.Exclusive {
		if err := s.Store.DropLeases(ctx); err != nil {
			s.logError("drop the leases of an earlier process", err) // they expire
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

// discoverLoop searches the queue for due rows, when another replica tells of some and at every poll.
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
		// The search takes longer the more destinations have rows, 70 ms for 10,000: it may take a
		// tenth of the time.
		began := time.Now()
		pause = s.discover(ctx)
		earliest = time.Now().Add(min(9*time.Since(began), maxPollPause))
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

// discover searches the queue once, and returns when to search it again.
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

// addLeases has rows of leases added, unless that is being done.
func (s *Scheduler) addLeases(destinationIDs []string) {
	if len(destinationIDs) == 0 {
		return
	}
	select {
	case s.noLease <- destinationIDs:
	default:
	}
}

// addLoop adds rows of leases. It is apart from leaseLoop, since an INSERT waits for another one of the
// same row that is not committed.
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

// leaseLoop takes leases that are wanted, and renews those that are in use.
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

// readLoop reads the queues of lanes, one after the other.
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

// read reads the queue of a lane. What is in flight is left out: it stays in the queue until its result is
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

// load reads the deliveries of the rows that are not in flight, and starts what can be sent.
func (s *Scheduler) load(ctx context.Context, n *lane, rows []Row, more bool) {
	chosen, left := s.lanes.choose(n, rows)
	concurrency, err := s.Load(ctx, n.id, chosen)
	if err != nil {
		s.lanes.failRead(n, chosen)
		s.logError("read the deliveries of a destination", err)
		return
	}
	s.start(s.lanes.endRead(n, readEnd{tasks: chosen, slots: concurrency, more: more, left: left}))
}

// start sends tasks, each in a goroutine of its own.
func (s *Scheduler) start(tasks []*Task) {
	for _, t := range tasks {
		s.spawn(t)
	}
}

// deliver makes one attempt and hands on its result. A delivery that was not tried, or that was cut
// off because the process stops, stays in the queue.
func (s *Scheduler) deliver(t *Task) {
	defer s.lanes.attempts.Done()
	result, err := s.Attempt(s.cut, t)
	next := s.lanes.sent(t, int64(len(result.Response)))
	if err != nil || !s.results.put(ended{task: t, result: result}) {
		s.lanes.untried(t)
	}
	s.start(next)
}

// logError logs an error of the background, if there is one, but not more often than logEvery.
func (s *Scheduler) logError(what string, err error) {
	now := time.Now().UnixNano()
	last := s.lastLog.Load()
	if err == nil || errors.Is(err, context.Canceled) || now-last < int64(logEvery) || !s.lastLog.CompareAndSwap(last, now) {
		return
	}
	s.Log.Error("deliveries are delayed", "step", what, "error", err)
}

// isUnavailable reports whether to try again what has no effect the second time.
func isUnavailable(err error) bool {
	return errs.KindOf(err) == errs.Unavailable || db.IsOutcomeUnknown(err)
}

// Stats are figures for an operator.
type Stats struct {
	OldestDue time.Duration // how long the oldest due delivery has been waiting
	Bytes     int64         // in memory, to be sent or written
	Sockets   int           // in use
}

// Stats returns the figures of this process.
func (s *Scheduler) Stats() Stats {
	stats := Stats{}
	if at := stamp.Time(s.oldestAt.Load()); at != 0 {
		stats.OldestDue = max(0, stamp.Of(s.Store.Now()).Sub(at))
	}
	stats.Bytes, stats.Sockets = s.lanes.inUse()
	return stats
}
