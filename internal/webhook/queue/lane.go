package queue

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"steward/internal/stamp"
)

const (
	// readAhead is the default of lanes.readAhead. A lane is read again when half of it is left.
	readAhead = 1000
	// renewBefore is how much of a lease may be left when it is renewed.
	renewBefore = LeaseFor / 2
	// rereadAfter is when the queue is read from its head again although its first row is in flight: an
	// earlier row may have been committed late.
	rereadAfter = time.Second
	// overlap is how much of what was read before is read again: rows are due in about the order in which they
	// are committed.
	overlap = 50 * time.Millisecond
	// leaseBatch bounds how many leases are asked for in one transaction.
	leaseBatch = 500
)

func (t *Task) compare(o *Task) int {
	return cmp.Or(cmp.Compare(t.DueAt, o.DueAt), cmp.Compare(t.Key, o.Key))
}

// lane is a destination that this process has in memory.
type lane struct {
	id    string
	state laneState
	lease stamp.Time // until when the destination is leased to this process
	used  stamp.Time // when it last had work
	slots int        // the destination's concurrency

	looked stamp.Time // when its queue was last read from its head
	since  stamp.Time // the due time up to which it was read since then; 0 if it is to be read from its head

	inFlight map[string]*Task // by row key: everything in memory, until its result is durable
	pending  []*Task          // the tasks that are not being sent yet, in the order of the queue
	sending  int
	blocked  bool // it is in lanes.blocked

	// What it takes of the budget.
	bytes          int64
	sockets        int
	reservedSocket bool
}

// lanes decides what is read, leased and sent next. It does no I/O and starts no goroutines: the
// Scheduler does, and reports what came of it.
type lanes struct {
	now func() time.Time
	// readAhead is how many deliveries of a destination may wait in memory.
	readAhead int
	// reads and leases are signalled when a lane is queued for a reader or wants a lease.
	reads, leases chan struct{}

	mu      sync.Mutex
	byID    map[string]*lane
	queue   []*lane // those to read, first in first out; what is not queued any more is passed over
	blocked []*lane // have nothing being sent, and wait for the budget
	budget  sendBudget
	closed  bool

	// attempts counts the tasks that were returned to be sent, until their attempt has ended. None is
	// added after close.
	attempts sync.WaitGroup
}

func newLanes(now func() time.Time, sockets int, bytes int64) *lanes {
	return &lanes{
		now: now, readAhead: readAhead, reads: make(chan struct{}, readers), leases: make(chan struct{}, 1), byID: map[string]*lane{},
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

// signal wakes a receiver of the channel, if there is one to wake.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wake notes that rows of these destinations were committed.
func (l *lanes) wake(destinationIDs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, destinationID := range destinationIDs {
		l.fire(l.lane(destinationID), rowsDue)
	}
}

// discovered notes the first due row of destinations, as the database has them, and returns what
// can be sent now.
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
	return len(n.pending) <= l.readAhead/2 && n.bytes <= l.budget.share()/2
}

// Portion is what to read of a queue: so many rows that are due at a time or later.
type Portion struct {
	Since stamp.Time
	Limit int
}

// nextRead returns the next lane to read, or nil, and what to read of its queue.
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

// portion returns what to read of the queue of a lane. What is in flight is read too and left out.
func (l *lanes) portion(n *lane) Portion {
	now := stamp.Of(l.now())
	p := Portion{Since: n.since.Add(-overlap), Limit: len(n.inFlight) + l.readAhead - len(n.pending)}
	if n.since == 0 || now.Sub(n.looked) >= rereadAfter {
		p.Since = 0
		n.looked = now
	}
	return p
}

// choose returns a task for each row that is not in flight, as far as the budget has room, and
// takes it from the budget. It reports whether rows were left for want of room.
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

// readEnd is what a read has found.
type readEnd struct {
	tasks []*Task
	slots int  // the destination's concurrency
	more  bool // there may be other due rows
	left  bool // the budget had no room for some of them
}

// endRead adds the tasks that could be loaded to a lane, and returns what can be sent now.
func (l *lanes) endRead(n *lane, end readEnd) (start []*Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	again := l.fire(n, readEnded) == readAgain
	n.slots = end.slots
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

// failRead ends a read that failed. The rows are discovered again.
func (l *lanes) failRead(n *lane, tasks []*Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tasks {
		l.abandon(t)
	}
	n.since = 0
	l.fire(n, readEnded)
}

// dispatch returns the tasks of a lane that can be sent now, and counts them as being sent.
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
		l.attempts.Add(1)
	}
	return start
}

// block puts a lane that has nothing being sent into the list of those that wait for the budget.
func (l *lanes) block(n *lane) {
	if !n.blocked {
		n.blocked = true
		l.blocked = append(l.blocked, n)
	}
}

// unblock gives some lanes that wait for the budget another try, first in first out, and returns
// what can be sent now.
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

// offerRoom has a lane that waits for room read again, if there is some.
func (l *lanes) offerRoom(n *lane) {
	if l.hasRoom(n) {
		l.fire(n, roomFound)
	}
}

// sent notes that an attempt has ended with a result of some bytes, which is still to be written.
// It returns what can be sent now.
func (l *lanes) sent(t *Task, bytes int64) (start []*Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := t.lane
	n.sending--
	l.budget.releaseSocket(n)
	t.Request = nil
	l.budget.release(n, t.charge)
	t.charge = l.budget.force(n, bytes+taskBytes)
	start = append(l.unblock(), l.dispatch(n)...) // those that wait come first
	l.offerRoom(n)
	return start
}

// written notes that results are durable, and returns what can be sent now.
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

// untried forgets a task whose delivery was not attempted. Its row is discovered again.
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

// release forgets a task.
func (l *lanes) release(t *Task) {
	n := t.lane
	if n.inFlight[t.Key] == t {
		delete(n.inFlight, t.Key)
	}
	l.budget.release(n, t.charge)
	t.charge = charge{}
	l.offerRoom(n)
}

// drop forgets what a lane has not sent, since its lease has ended. The rows stay in the queue for
// whoever holds the next one.
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

// leasesToTake returns destinations whose lease is wanted, or should be renewed.
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

// leased notes which of the leases that were asked for are held now. Another process has the
// others, and sends their rows, or their renewal failed since somebody has locked their rows: they are
// held until they expire.
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

// expire drops what lanes hold whose lease has ended, and forgets lanes that had nothing to do for
// long.
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

// close stops all reading and sending; what is being sent goes on.
func (l *lanes) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// inUse returns the bytes and sockets that are in use.
func (l *lanes) inUse() (bytes int64, sockets int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.budget.bytes + l.budget.reserved, l.budget.sockets + l.budget.reservedSockets
}
