package webhook

import (
	"sync"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
)

const (
	// laneQueue is how many leased deliveries may wait in memory for a slot of their destination.
	laneQueue = 256
	// laneBytes and allBytes bound the bodies that wait: beyond them a delivery is taken only when a slot is free for it.
	laneBytes = 4 << 20
	allBytes  = 128 << 20
	// turnMargin is how long a turn must still last for a delivery to be leased on the strength of it.
	turnMargin = 5 * time.Second
	// idleLane is when a lane without work is forgotten; its turn ends before that.
	idleLane = 2 * turnFor
)

// task is a delivery that is leased to this process.
type task struct {
	Delivery
	receipt *Receipt
	until   stamp.Time
}

func (t *task) bytes() int64 {
	if t.receipt == nil {
		return 0
	}
	return int64(len(t.receipt.body))
}

// Lanes are the destinations that this process sends to at the moment: what it has in hand for each, and whether there is more.
type Lanes struct {
	now func() time.Time
	// wake tells the worker that a lane has something to claim.
	wake chan struct{}

	mu    sync.Mutex
	byID  map[string]*lane
	held  map[*task]struct{}
	bytes int64
	open  bool
	// round counts how often destinations were doubted: what was read before is not known after.
	round  uint64
	serve  func(*lane)
	served sync.WaitGroup
}

// lane is one destination. Its order: what it holds is sent first in, first out, and nothing is taken past rows that are still to be
// claimed.
type lane struct {
	id string
	// destination is as of the last claim; nil when it was deleted. key is its opened secret.
	destination *Destination
	key         []byte
	known       bool // destination was loaded, and not changed since
	turn        stamp.Time
	used        stamp.Time

	queue    []*task
	reserved int // offered, and not yet committed
	bytes    int64
	running  int // goroutines that send

	backlog  bool   // there are, or may be, ready rows
	open     int    // ready rows that are not yet committed
	arrivals uint64 // commits of ready rows
}

// NewLanes gives lanes that take nothing until a worker runs. They hear of every change of a destination, on any replica.
func NewLanes(d *db.DB, now func() time.Time) *Lanes {
	l := &Lanes{now: now, wake: make(chan struct{}, 1), byID: map[string]*lane{}, held: map[*task]struct{}{}}
	d.Watch(destinationsChanged, l.doubt)
	return l
}

// start lets the lanes take work, which serve does in goroutines of their own.
func (l *Lanes) start(serve func(*lane)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open, l.serve = true, serve
}

func (l *Lanes) lane(destinationID string) *lane {
	n := l.byID[destinationID]
	if n == nil {
		n = &lane{id: destinationID, used: stamp.Of(l.now())}
		l.byID[destinationID] = n
	}
	return n
}

func (l *Lanes) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// offer asks whether a new delivery may be leased to this process at once. It may when nothing of the destination waits in the database,
// there is room, and the turn is ours. Each answer must be settled.
func (l *Lanes) offer(to target, size int64) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.lane(to.destinationID)
	ok := l.open && !n.backlog && n.open == 0 && n.known && n.destination != nil && n.destination.version == to.version &&
		n.turn > stamp.Of(l.now()).Add(turnMargin) && n.fits(size, l.bytes)
	if !ok {
		n.open++
		return false
	}
	n.reserved++
	n.bytes += size
	l.bytes += size
	return true
}

// fits tells whether there is room: always for a free slot, else within the bounds of what may wait.
func (n *lane) fits(size, all int64) bool {
	waiting := len(n.queue) + n.reserved
	if n.destination != nil && waiting+n.running < n.destination.Config.Concurrency {
		return true
	}
	return waiting < laneQueue && n.bytes+size <= laneBytes && all+size <= allBytes
}

// settle ends what offer began: after a commit leased deliveries are queued, and lanes with ready rows look for them.
func (l *Lanes) settle(p *plan, committed bool) {
	if l == nil || p == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range p.leased {
		n := l.byID[t.DestinationID]
		n.reserved--
		n.bytes -= t.receipt.Size
		l.bytes -= t.receipt.Size
		if committed {
			l.push(n, t)
		}
	}
	for _, destinationID := range p.ready {
		n := l.byID[destinationID]
		n.open--
		if committed {
			n.backlog = true
			n.arrivals++
		}
	}
	if committed && len(p.ready) > 0 {
		l.nudge()
	}
}

// arrived tells of committed ready rows that were never offered.
func (l *Lanes) arrived(p *plan) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, destinationID := range p.ready {
		n := l.lane(destinationID)
		n.backlog = true
		n.arrivals++
	}
	l.nudge()
}

// push queues a leased delivery and sees to it that somebody sends it, or, after close, that it is given back.
func (l *Lanes) push(n *lane, t *task) {
	l.held[t] = struct{}{}
	n.bytes += t.bytes()
	l.bytes += t.bytes()
	n.queue = append(n.queue, t)
	n.used = stamp.Of(l.now())
	if l.open && n.running < n.slots() {
		n.running++
		l.served.Add(1)
		go func() {
			defer l.served.Done()
			l.serve(n)
		}()
	}
}

func (n *lane) slots() int {
	if n.destination == nil {
		return 1
	}
	return n.destination.Config.Concurrency
}

// take gives the next delivery to send, or nil when the goroutine that asks is to end.
func (l *Lanes) take(n *lane) *task {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open || len(n.queue) == 0 || n.running > n.slots() {
		n.running--
		if n.backlog {
			l.nudge()
		}
		return nil
	}
	t := n.queue[0]
	n.queue[0] = nil
	n.queue = n.queue[1:]
	n.used = stamp.Of(l.now())
	if n.backlog && len(n.queue) == laneQueue/2 {
		l.nudge()
	}
	return t
}

// forget ends a delivery that is finished, or that is left to its lease.
func (l *Lanes) forget(tasks ...*task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tasks {
		delete(l.held, t)
		l.bytes -= t.bytes()
		if n := l.byID[t.DestinationID]; n != nil {
			n.bytes -= t.bytes()
		}
	}
}

// target gives what is known of the lane's destination; not known means that it must be read again, and learned for that round.
func (l *Lanes) target(n *lane) (to *Destination, key []byte, known bool, round uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return n.destination, n.key, n.known, l.round
}

// learn notes a lane's destination as it was read in a round.
func (l *Lanes) learn(n *lane, to *Destination, key []byte, round uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.destination, n.key, n.known = to, key, l.round == round
}

// doubt has every destination read again before the next delivery: one was changed, here or on another replica.
func (l *Lanes) doubt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.round++
	for _, n := range l.byID {
		n.known = false
	}
}
