package webhook

import (
	"sync"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
)

const (
	// laneQueue is how many deliveries may wait in memory for a slot of their destination.
	laneQueue = 2048
	// laneBytes and allBytes bound what is in hand to be sent: beyond them a delivery is taken only when a slot is free for it.
	laneBytes = 4 << 20
	allBytes  = 128 << 20
	// idleLane is when a lane without work is forgotten; its turn ends before that.
	idleLane = 2 * turnFor
)

// task is a delivery in the hands of this process.
type task struct {
	Delivery
	receipt *Receipt // nil when it is no longer kept, or no longer needed
}

func (t *task) place() place { return place{t.due, t.key()} }

func (t *task) bytes() int64 {
	if t.receipt == nil {
		return 0
	}
	return int64(len(t.receipt.body) + len(t.receipt.headerText))
}

// Lanes are the destinations that this process sends to at the moment: what it has in hand for each, and whether there is more.
type Lanes struct {
	now func() time.Time
	// wake tells the worker that a lane has something to read.
	wake chan struct{}

	mu    sync.Mutex
	byID  map[string]*lane
	bytes int64
	open  bool
	// round counts how often destinations were doubted: what was read before is not known after.
	round  uint64
	serve  func(*lane)
	served sync.WaitGroup
}

// lane is one destination. Its order: what it holds is sent first in, first out, and nothing is taken past rows that are still to be
// read.
type lane struct {
	id string
	// destination is as of the last reading; nil when it was deleted. signer has its opened secret.
	destination *Destination
	signer      *Signer
	known       bool       // destination was loaded, and not changed since
	turn        stamp.Time // until when the destination is ours
	used        stamp.Time

	queue   []*task
	held    map[string]*task // all that is in hand: queued, being sent, or with a result that is not yet written
	coming  map[string]bool  // what Accept is committing at the moment
	bytes   int64            // of what is in hand to be sent
	typical int64            // bytes of a delivery, as far as they were read
	running int              // goroutines that send

	backlog  bool   // there are, or may be, ready rows that are not in hand
	arrivals uint64 // how often rows came while there was a backlog
	// Rows up to `from` are in hand or finished, but for those of which `again` tells; none after `top` is in hand.
	from, top place
	again     bool
	begun     stamp.Time // when it was last read from the beginning
}

// NewLanes gives lanes that take nothing until a worker runs. They hear of every change of a destination, on any replica.
func NewLanes(d *db.DB, now func() time.Time) *Lanes {
	l := &Lanes{now: now, wake: make(chan struct{}, 1), byID: map[string]*lane{}}
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
		n = &lane{
			id: destinationID, held: map[string]*task{}, coming: map[string]bool{}, typical: inlineBody, used: stamp.Of(l.now()),
		}
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

// announce tells of deliveries that are about to be committed. From their commit on they can be read, too; so that they are not sent
// twice, they wait until settle says what became of them.
func (l *Lanes) announce(made []*task) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range made {
		l.lane(t.DestinationID).coming[t.ID] = true
	}
}

// settle ends what announce began. Committed deliveries go to their lanes at once, in their order, where nothing else waits in the
// database, there is room, and the turn is ours; else they are read when there is.
func (l *Lanes) settle(made []*task, committed bool) {
	if l == nil || len(made) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := stamp.Of(l.now())
	for _, t := range made {
		n := l.lane(t.DestinationID)
		delete(n.coming, t.ID)
		switch {
		case !committed:
		case l.open && !n.backlog && n.turn > now && n.fits(t.bytes(), l.bytes):
			l.push(n, t)
			n.from = n.top
		default:
			l.left(n)
		}
	}
}

// more tells of committed ready rows of a destination, of any age.
func (l *Lanes) more(destinationID string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.lane(destinationID)
	n.again = true
	l.left(n)
}

// left notes that ready rows of a lane are to be read.
func (l *Lanes) left(n *lane) {
	n.backlog = true
	n.arrivals++
	l.nudge()
}

// fits tells whether there is room: always for a free slot, else within the bounds of what may wait.
func (n *lane) fits(size, all int64) bool {
	waiting := len(n.queue)
	if n.destination != nil && waiting+n.running < n.destination.Config.Concurrency {
		return true
	}
	return waiting < laneQueue && n.bytes+size <= laneBytes && all+size <= allBytes
}

// push queues a delivery and sees to it that somebody sends it.
func (l *Lanes) push(n *lane, t *task) {
	n.held[t.ID] = t
	n.bytes += t.bytes()
	l.bytes += t.bytes()
	n.queue = append(n.queue, t)
	n.used = stamp.Of(l.now())
	if at := t.place(); n.top.before(at) {
		n.top = at
	}
	if n.running < n.slots() {
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

// take gives the next delivery to send, or nil when the goroutine that asks is to end. sent is the one that it had before, if any.
func (l *Lanes) take(n *lane, sent *task) *task {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sent != nil {
		l.unload(n, sent)
	}
	now := stamp.Of(l.now())
	if n.turn <= now {
		l.drop(n)
	}
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
	n.used = now
	if n.backlog && len(n.queue) == laneQueue/2 {
		l.nudge()
	}
	return t
}

// drop lets go of what a lane has queued, since its turn is over. The rows are as ready as before, for whoever has the turn next.
func (l *Lanes) drop(n *lane) {
	for _, t := range n.queue {
		l.release(n, t)
	}
	n.queue, n.turn, n.again, n.backlog = nil, 0, true, true
}

// finished lets go of deliveries whose results are written.
func (l *Lanes) finished(batch []ended) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range batch {
		if n := l.byID[e.task.DestinationID]; n != nil && n.held[e.task.ID] == e.task {
			l.release(n, e.task)
		}
	}
}

// untried lets go of a delivery that could not be tried. It is read again, but not before the worker looks by itself: what kept it from
// being tried may still be there.
func (l *Lanes) untried(n *lane, t *task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release(n, t)
	n.again, n.backlog = true, true
	n.arrivals++
}

func (l *Lanes) release(n *lane, t *task) {
	delete(n.held, t.ID)
	l.unload(n, t)
}

// unload lets go of what is only needed to send a delivery.
func (l *Lanes) unload(n *lane, t *task) {
	full := n.bytes > laneBytes/2
	n.bytes -= t.bytes()
	l.bytes -= t.bytes()
	t.receipt = nil
	if full && n.bytes <= laneBytes/2 && n.backlog {
		l.nudge()
	}
}

// target gives what is known of the lane's destination; not known means that it must be read again, and learned for that round.
func (l *Lanes) target(n *lane) (to *Destination, by *Signer, known bool, round uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return n.destination, n.signer, n.known, l.round
}

// learn notes a lane's destination as it was read in a round.
func (l *Lanes) learn(n *lane, to *Destination, by *Signer, round uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.destination, n.signer, n.known = to, by, l.round == round
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
