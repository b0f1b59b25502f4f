package webhook

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"steward/internal/stamp"
)

// laneState says what is known of the due rows of a destination's queue.
type laneState int

// The states of a lane, and what moves it on.
const (
	laneIdle    laneState = iota // nothing is known to be due: until rows are committed or discovered
	laneWanted                   // rows are due, but the lease is not held: until the lease loop has asked for it
	laneQueued                   // rows are due: until a reader takes the lane
	laneReading                  // a reader reads the queue: until it is done
	laneStale                    // as laneReading, and more rows were committed since the read began
	laneFull                     // rows may be due, but there is no room for them: until a delivery has been sent
)

const (
	// readAhead is the default of lanes.readAhead. A lane is read again when half of it is left.
	readAhead = 1000
	// leaseFor is how long a process may be silent before another one may take over its destinations.
	leaseFor = 30 * time.Second
	// renewBefore is how much of a lease may be left when it is renewed.
	renewBefore = leaseFor / 2
	// rereadAfter is when the queue is read again although its first row is in flight: an earlier
	// row may have been committed late.
	rereadAfter = time.Second
	// leaseBatch bounds how many leases are asked for in one transaction.
	leaseBatch = 500
)

// task is a delivery in memory.
type task struct {
	Delivery
	lane    *lane
	receipt *Receipt // nil before it is read, when it is no longer kept, and after the delivery was sent
	charge  charge   // what it takes of the budget
	written bool     // its result is durable, but its lane is still being read
}

func (t *task) compare(o *task) int {
	return cmp.Or(cmp.Compare(t.due, o.due), cmp.Compare(t.key, o.key))
}

// lane is a destination that this process has in memory.
type lane struct {
	id    string
	state laneState
	lease stamp.Time // until when the destination is leased to this process
	used  stamp.Time // when it last had work
	read  stamp.Time // when its queue was last read
	slots int        // the destination's concurrency

	inFlight map[string]*task // by row key: everything in memory, until its result is durable
	pending  []*task          // the tasks that are not being sent yet, in the order of the queue
	sending  int
	blocked  bool // it is in lanes.blocked

	// What it takes of the budget.
	bytes          int64
	sockets        int
	reservedSocket bool
}

// isReading reports whether a reader works on the lane.
func (n *lane) isReading() bool { return n.state == laneReading || n.state == laneStale }

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
	queue   []*lane // laneQueued, first in first out
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
		n = &lane{id: destinationID, inFlight: map[string]*task{}, slots: defaultConcurrency}
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
		l.want(l.lane(destinationID))
	}
}

// discovered notes the first due row of destinations, as the database has them, and returns what
// can be sent now.
func (l *lanes) discovered(heads []head) (start []*task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	recently := stamp.Of(l.now()).Add(-rereadAfter)
	for _, h := range heads {
		n := l.lane(h.destinationID)
		if n.inFlight[h.key] == nil || n.read < recently {
			l.want(n)
		}
	}
	return l.unblock()
}

// want notes that a lane has due rows.
func (l *lanes) want(n *lane) {
	switch n.state {
	case laneIdle:
		l.enqueue(n)
	case laneReading:
		n.state = laneStale
	}
}

// enqueue has a lane read next, or leased first.
func (l *lanes) enqueue(n *lane) {
	now := stamp.Of(l.now())
	n.used = now
	if n.lease <= now {
		n.state = laneWanted
		signal(l.leases)
		return
	}
	n.state = laneQueued
	l.queue = append(l.queue, n)
	signal(l.reads)
}

// hasRoom reports whether a lane should read more of its queue.
func (l *lanes) hasRoom(n *lane) bool {
	return len(n.pending) <= l.readAhead/2 && n.bytes <= l.budget.share()/2
}

// nextRead returns the next lane to read, and how many rows of its queue to read, or nil.
func (l *lanes) nextRead() (n *lane, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 && !l.closed {
		n := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		if n.state != laneQueued { // it lost its lease
			continue
		}
		n.state = laneReading
		n.read = stamp.Of(l.now())
		if len(l.queue) > 0 {
			signal(l.reads)
		}
		return n, len(n.inFlight) + l.readAhead - len(n.pending)
	}
	return nil, 0
}

// choose returns a task for each row that is not in flight, as far as the budget has room, and
// takes it from the budget. It reports whether rows were left for want of room.
func (l *lanes) choose(n *lane, rows []dueRow) (chosen []*task, left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range rows {
		if n.inFlight[d.key] != nil {
			continue
		}
		c, ok := l.budget.take(n, d.size+taskBytes, len(n.pending)+n.sending+len(chosen) == 0)
		if !ok {
			return chosen, true
		}
		t := &task{Delivery: Delivery{key: d.key, due: d.due, size: d.size}, lane: n, charge: c}
		n.inFlight[d.key] = t
		chosen = append(chosen, t)
	}
	return chosen, false
}

// endRead adds the tasks that could be loaded to a lane, and returns what can be sent now. more
// reports whether there may be other due rows, and left whether the budget had no room for some.
func (l *lanes) endRead(n *lane, chosen []*task, slots int, more, left bool) (start []*task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	more = more || left || n.state == laneStale
	n.state = laneIdle
	n.slots = slots
	for key, t := range n.inFlight {
		if t.written {
			delete(n.inFlight, key)
		}
	}
	for _, t := range chosen {
		if t.ID == "" {
			l.release(t)
			continue
		}
		n.pending = append(n.pending, t)
	}
	slices.SortFunc(n.pending, (*task).compare)
	start = l.dispatch(n)
	if !more || n.state != laneIdle {
		return start
	}
	switch {
	case !left && l.hasRoom(n):
		l.enqueue(n)
	case left && len(n.pending)+n.sending == 0:
		n.state = laneFull
		l.block(n)
	default:
		n.state = laneFull
	}
	return start
}

// failRead ends a read that failed. The rows are discovered again.
func (l *lanes) failRead(n *lane, chosen []*task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range chosen {
		l.release(t)
	}
	n.state = laneIdle
}

// dispatch returns the tasks of a lane that can be sent now, and counts them as being sent.
func (l *lanes) dispatch(n *lane) (start []*task) {
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
func (l *lanes) unblock() (start []*task) {
	for range min(len(l.blocked), shares) {
		n := l.blocked[0]
		l.blocked[0] = nil
		l.blocked = l.blocked[1:]
		n.blocked = false
		start = append(start, l.dispatch(n)...)
		if n.state == laneFull && l.hasRoom(n) {
			l.enqueue(n)
		}
	}
	return start
}

// sent notes that an attempt has ended with a result of some bytes, which is still to be written.
// It returns what can be sent now.
func (l *lanes) sent(t *task, bytes int64) (start []*task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := t.lane
	n.sending--
	l.budget.releaseSocket(n)
	t.receipt = nil
	l.budget.release(n, t.charge)
	t.charge = l.budget.force(n, bytes+taskBytes)
	start = append(l.unblock(), l.dispatch(n)...) // those that wait come first
	if n.state == laneFull && l.hasRoom(n) {
		l.enqueue(n)
	}
	return start
}

// written notes that results are durable, and returns what can be sent now.
func (l *lanes) written(tasks []*task) (start []*task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tasks {
		if t.lane.isReading() { // the reader may have seen its row
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
func (l *lanes) untried(t *task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(t)
}

// release forgets a task.
func (l *lanes) release(t *task) {
	n := t.lane
	if n.inFlight[t.key] == t {
		delete(n.inFlight, t.key)
	}
	l.budget.release(n, t.charge)
	t.charge = charge{}
	if n.state == laneFull && l.hasRoom(n) {
		l.enqueue(n)
	}
}

// drop forgets what a lane has not sent, since its lease has ended. The rows stay in the queue for
// whoever holds the next one.
func (l *lanes) drop(n *lane) {
	dropped := n.pending
	n.pending = nil
	for _, t := range dropped {
		l.release(t)
	}
	n.lease = 0
	if !n.isReading() && len(dropped) > 0 || n.state == laneQueued || n.state == laneFull {
		n.state = laneWanted
		signal(l.leases)
	}
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
		busy := len(n.inFlight) > 0 || now.Sub(n.used) < leaseFor
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
			if !n.isReading() {
				n.state = laneIdle
			}
			continue
		}
		n.lease = until
		if n.state == laneWanted {
			l.enqueue(n)
		}
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
		if n.state == laneIdle && len(n.inFlight) == 0 && now.Sub(n.used) > 2*leaseFor {
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
