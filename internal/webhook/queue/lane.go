package queue

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"steward/internal/stamp"
)

const (
	// readAhead is the default for lanes.readAhead. We read a lane again when half of it is left.
	readAhead = 1000
	// renewBefore is how much of a lease may be left when we renew it.
	renewBefore = LeaseFor / 2
	// After rereadAfter we read the queue from its head again, even if its first row is in flight: an
	// earlier row may have been committed late.
	rereadAfter = time.Second
	// overlap is how far back we read again, because rows become due only roughly in the order they
	// are committed.
	overlap = 50 * time.Millisecond
	// leaseBatch bounds the leases that we ask for in one transaction.
	leaseBatch = 500
)

func (t *Task) compare(o *Task) int {
	return cmp.Or(cmp.Compare(t.DueAt, o.DueAt), cmp.Compare(t.Key, o.Key))
}

// lane is a destination that this process has in memory.
type lane struct {
	id    string
	state laneState
	lease stamp.Time // the destination is leased to this process until then
	used  stamp.Time // when it last had work
	slots int        // the destination's concurrency
	rate  Rate
	next  stamp.Time // when the next attempt is planned, if there is a rate
	timer stamp.Time // when later is going to resume it, or 0

	looked stamp.Time // when we last read its queue from the head
	since  stamp.Time // the due time up to which we have read since then; 0 to read from the head

	inFlight map[string]*Task // by row key: everything in memory, until its result is durable
	pending  []*Task          // tasks that are not being sent yet, in queue order
	sending  int
	blocked  bool // it is in lanes.blocked

	// Its share of the budget.
	bytes          int64
	sockets        int
	reservedSocket bool
}

// lanes decides what we read, lease and send next. It does no I/O and starts no goroutines: the
// Scheduler does, and reports the outcome.
type lanes struct {
	now func() time.Time
	// readAhead bounds a destination's deliveries that wait in memory.
	readAhead int
	// later calls resume after some time.
	later func(n *lane, after time.Duration)
	// reads is signalled when a lane is queued for a reader, and leases when a lane wants a lease.
	reads, leases chan struct{}

	mu      sync.Mutex
	byID    map[string]*lane
	queue   []*lane // lanes to read, first in first out; we skip those that no longer are in laneQueued
	blocked []*lane // lanes that are sending nothing and wait for the budget
	budget  sendBudget
	closed  bool

	// attempts counts the tasks that were handed out to be sent and whose attempt has not ended. After
	// close, none is added.
	attempts sync.WaitGroup
}

func newLanes(now func() time.Time, sockets int, bytes int64) *lanes {
	return &lanes{
		now: now, readAhead: readAhead, later: func(*lane, time.Duration) {}, reads: make(chan struct{}, readers), leases: make(chan struct{}, 1), byID: map[string]*lane{},
		budget: newBudget(sockets, bytes),
	}
}

func (l *lanes) lane(destinationID string) *lane {
	n := l.byID[destinationID]
	if n == nil {
		n = &lane{id: destinationID, inFlight: map[string]*Task{}, slots: DefaultConcurrency}
		l.byID[destinationID] = n
	}
	return n
}

// signal wakes one of the channel's receivers. It never blocks: if the channel is full, they are about
// to wake anyway.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wake notes that rows for these destinations were committed.
func (l *lanes) wake(destinationIDs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, destinationID := range destinationIDs {
		l.fire(l.lane(destinationID), rowsDue)
	}
}

// discovered takes note of the due rows that a search found at the heads of queues, and returns the
// tasks to send now.
func (l *lanes) discovered(heads []Head) (start []*Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	recently := stamp.Of(l.now()).Add(-rereadAfter)
	for _, h := range heads {
		n := l.lane(h.DestinationID)
		if n.inFlight[h.Key] == nil || n.looked < recently {
			n.since = 0
			l.fire(n, rowsDue)
		}
	}
	return l.unblock()
}

// hasRoom reports whether a lane should read more of its queue.
func (l *lanes) hasRoom(n *lane) bool {
	return len(n.pending) <= l.ahead(n)/2 && n.bytes <= l.budget.share()/2
}

// Portion says which rows to read from a queue: up to Limit rows that are due at Since or later.
type Portion struct {
	Since stamp.Time
	Limit int
}

// nextRead returns the next lane to read, or nil, and the portion of its queue.
func (l *lanes) nextRead() (*lane, Portion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 && !l.closed {
		n := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		if l.fire(n, readerFree) != startRead { // it lost its lease
			continue
		}
		if len(l.queue) > 0 {
			signal(l.reads)
		}
		return n, l.portion(n)
	}
	return nil, Portion{}
}

// portion returns the part of a lane's queue to read. It allows for rows in flight: the read finds
// them too, and choose skips them.
func (l *lanes) portion(n *lane) Portion {
	now := stamp.Of(l.now())
	p := Portion{Since: n.since.Add(-overlap), Limit: len(n.inFlight) + l.ahead(n) - len(n.pending)}
	if n.since == 0 || now.Sub(n.looked) >= rereadAfter {
		p.Since = 0
		n.looked = now
	}
	return p
}

// choose returns a task for each row that is not in flight, charging it to the budget, until there is
// no room. It reports whether it left rows for lack of room.
func (l *lanes) choose(n *lane, rows []Row) (chosen []*Task, left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range rows {
		if n.inFlight[d.Key] != nil {
			n.since = d.DueAt
			continue
		}
		c, ok := l.budget.take(n, d.Size+taskBytes, len(n.pending)+n.sending+len(chosen) == 0)
		if !ok {
			return chosen, true
		}
		t := &Task{Row: d, lane: n, charge: c}
		n.inFlight[d.Key] = t
		n.since = d.DueAt
		chosen = append(chosen, t)
	}
	return chosen, false
}

// readEnd is a read's outcome.
type readEnd struct {
	tasks  []*Task
	limits Limits
	more   bool // there may be other due rows
	left   bool // the budget had no room for some of them
}

// endRead adds the tasks that Load could load to their lane, and returns those to send now.
func (l *lanes) endRead(n *lane, end readEnd) (start []*Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	again := l.fire(n, readEnded) == readAgain
	l.limit(n, end.limits)
	for key, t := range n.inFlight {
		if t.written {
			delete(n.inFlight, key)
		}
	}
	for _, t := range end.tasks {
		if t.ReceiptKey == "" {
			l.abandon(t)
			continue
		}
		n.pending = append(n.pending, t)
	}
	slices.SortFunc(n.pending, (*Task).compare)
	for last := len(n.pending) - 1; last >= l.ahead(n); last-- { // we did not know the rate
		t := n.pending[last]
		n.pending = n.pending[:last]
		l.abandon(t)
		end.more = true
	}
	start = l.dispatch(n)
	switch {
	case !end.more && !end.left && !again:
	case !end.left && l.hasRoom(n):
		l.fire(n, rowsDue)
	default:
		if l.fire(n, rowsLeft) == waitForRoom && end.left && len(n.pending)+n.sending == 0 {
			l.block(n)
		}
	}
	return start
}

// failRead ends a failed read. The next search finds the rows again.
func (l *lanes) failRead(n *lane, tasks []*Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tasks {
		l.abandon(t)
	}
	n.since = 0
	l.fire(n, readEnded)
}

// dispatch returns the lane's tasks to send now, and counts them as being sent.
func (l *lanes) dispatch(n *lane) (start []*Task) {
	if l.closed {
		return nil
	}
	now := stamp.Of(l.now())
	if n.lease <= now {
		l.drop(n)
		return nil
	}
	for len(n.pending) > 0 && n.sending < n.slots {
		if wait := n.wait(now); wait > 0 {
			l.resumeAfter(n, max(wait, time.Millisecond))
			break
		}
		if !l.budget.takeSocket(n) {
			if n.sending == 0 {
				l.block(n)
			}
			break
		}
		start = append(start, n.pending[0])
		n.pending[0] = nil
		n.pending = n.pending[1:]
		n.sending++
		n.used = now
		if n.rate.Limit > 0 {
			n.next = max(n.next, now).Add(n.rate.interval())
		}
		l.attempts.Add(1)
	}
	return start
}

// block lets a lane that is sending nothing wait for the budget.
func (l *lanes) block(n *lane) {
	if !n.blocked {
		n.blocked = true
		l.blocked = append(l.blocked, n)
	}
}

// unblock gives some of the lanes that wait for the budget another try, first in first out, and
// returns the tasks to send now.
func (l *lanes) unblock() (start []*Task) {
	for range min(len(l.blocked), shares) {
		n := l.blocked[0]
		l.blocked[0] = nil
		l.blocked = l.blocked[1:]
		n.blocked = false
		start = append(start, l.dispatch(n)...)
		l.offerRoom(n)
	}
	return start
}

// offerRoom lets a lane that waits for room read again, if there is some.
func (l *lanes) offerRoom(n *lane) {
	if l.hasRoom(n) {
		l.fire(n, roomFound)
	}
}

// sent notes that an attempt has ended. Its result takes the given bytes until it is written. sent
// returns the tasks to send now.
func (l *lanes) sent(t *Task, bytes int64) (start []*Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := t.lane
	n.sending--
	l.budget.releaseSocket(n)
	t.Request = nil
	l.budget.release(n, t.charge)
	t.charge = l.budget.force(n, bytes+taskBytes)
	start = append(l.unblock(), l.dispatch(n)...) // waiting lanes come first
	l.offerRoom(n)
	return start
}

// written notes that results are durable, and returns the tasks to send now.
func (l *lanes) written(tasks []*Task) (start []*Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tasks {
		if t.lane.state.isReading() { // the reader may have seen its row
			l.budget.release(t.lane, t.charge)
			t.charge = charge{}
			t.written = true
			continue
		}
		l.release(t)
	}
	return l.unblock()
}

// untried forgets a task that was not attempted. The next search finds its row again.
func (l *lanes) untried(t *Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abandon(t)
}

// abandon forgets a task whose row stays in the queue.
func (l *lanes) abandon(t *Task) {
	t.lane.since = 0
	l.release(t)
}

// release forgets a task and gives back its charge.
func (l *lanes) release(t *Task) {
	n := t.lane
	if n.inFlight[t.Key] == t {
		delete(n.inFlight, t.Key)
	}
	l.budget.release(n, t.charge)
	t.charge = charge{}
	l.offerRoom(n)
}

// drop forgets a lane's unsent tasks because its lease has ended. The rows stay in the queue for the
// next holder.
func (l *lanes) drop(n *lane) {
	dropped := n.pending
	n.pending = nil
	for _, t := range dropped {
		l.abandon(t)
	}
	n.lease = 0
	n.since = 0
	if len(dropped) > 0 {
		l.fire(n, tasksDropped)
		return
	}
	l.fire(n, leaseEnded)
}

// leasesToTake returns destinations whose lease we want to take or renew.
func (l *lanes) leasesToTake() (destinationIDs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := stamp.Of(l.now())
	for _, n := range l.byID {
		if len(destinationIDs) == leaseBatch {
			signal(l.leases)
			break
		}
		busy := len(n.inFlight) > 0 || now.Sub(n.used) < LeaseFor
		expiring := n.lease != 0 && n.lease.Sub(now) < renewBefore
		if n.state == laneWanted || expiring && busy {
			destinationIDs = append(destinationIDs, n.id)
		}
	}
	return destinationIDs
}

// leased notes which of the requested leases we hold. For the others there are two reasons. Either
// another process holds the lease and sends the rows. Or the row was locked and we could not renew our
// lease, which we then hold until it expires.
func (l *lanes) leased(asked, held []string, until stamp.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := stamp.Of(l.now())
	isHeld := make(map[string]bool, len(held))
	for _, destinationID := range held {
		isHeld[destinationID] = true
	}
	for _, destinationID := range asked {
		n := l.byID[destinationID]
		if n == nil || !isHeld[destinationID] && n.lease > now {
			continue
		}
		if !isHeld[destinationID] {
			l.drop(n)
			l.fire(n, leaseRefused)
			continue
		}
		n.lease = until
		l.fire(n, leaseGranted)
	}
}

// expire drops the unsent tasks of lanes whose lease has ended, and forgets lanes that had nothing to
// do for a long time.
func (l *lanes) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := stamp.Of(l.now())
	for destinationID, n := range l.byID {
		if n.lease <= now && len(n.pending) > 0 {
			l.drop(n)
		}
		if n.state == laneIdle && len(n.inFlight) == 0 && now.Sub(n.used) > 2*LeaseFor {
			delete(l.byID, destinationID)
		}
	}
}

// close stops all reading and starts no more attempts. Those under way go on.
func (l *lanes) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// inUse returns the bytes and sockets in use.
func (l *lanes) inUse() (bytes int64, sockets int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.budget.bytes + l.budget.reserved, l.budget.sockets + l.budget.reservedSockets
}
