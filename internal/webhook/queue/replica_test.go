package queue

import (
	"context"
	"testing"

	"steward/internal/stamp"
)

// Replica is a scheduler that tests run step by step. Attempts begin when they are started, and go on
// when Finish is called.
type Replica struct {
	*Scheduler
	running []*Task
	reads   []openRead
}

// openRead is a read whose rows were read, but not yet used.
type openRead struct {
	lane *lane
	rows []Row
	more bool
}

// NewReplica returns a replica with small limits, so that histories reach them.
func NewReplica(t testing.TB, s *Scheduler) *Replica {
	r := &Replica{Scheduler: s}
	s.cut = t.Context()
	s.results = &resultQueue{queue: make(chan ended, 100)}
	s.lanes = newLanes(s.Store.Now, 0, 0)
	s.lanes.readAhead = 4
	s.lanes.budget = sendBudget{
		maxBytes: 8 * (taskBytes + 64), reserveBytes: 3 * taskBytes, maxSockets: 4, reserveSockets: 1, shares: 2,
	}
	s.spawn = func(t *Task) { r.running = append(r.running, t) }
	return r
}

// Discover searches the queue.
func (r *Replica) Discover(ctx context.Context) { r.discover(ctx) }

// Expire drops what leases have ended for.
func (r *Replica) Expire() { r.lanes.expire() }

// TakeLeases takes and renews leases.
func (r *Replica) TakeLeases(ctx context.Context) { r.takeLeases(ctx) }

// BeginRead is the first half of a read: the rows may be old when they are used.
func (r *Replica) BeginRead(ctx context.Context) error {
	n, p := r.lanes.nextRead()
	if n == nil {
		return nil
	}
	rows, err := r.Store.Due(ctx, n.id, p)
	r.reads = append(r.reads, openRead{n, rows, len(rows) == p.Limit})
	return err
}

// Reads returns how many reads have begun.
func (r *Replica) Reads() int { return len(r.reads) }

// EndRead is the second half of a read.
func (r *Replica) EndRead(ctx context.Context, i int) {
	open := r.take(i)
	r.load(ctx, open.lane, open.rows, open.more)
}

// FailRead ends a read as one that failed.
func (r *Replica) FailRead(i int) {
	open := r.take(i)
	chosen, _ := r.lanes.choose(open.lane, open.rows)
	r.lanes.failRead(open.lane, chosen)
}

func (r *Replica) take(i int) openRead {
	open := r.reads[i]
	r.reads = append(r.reads[:i:i], r.reads[i+1:]...)
	return open
}

// Running returns the attempts that have begun.
func (r *Replica) Running() []*Task { return r.running }

// OnStart calls a function for each attempt that begins, with whether its lease is held.
func (r *Replica) OnStart(began func(t *Task, leased bool)) {
	r.spawn = func(t *Task) {
		began(t, t.lane.lease > stamp.Of(r.Store.Now()))
		r.running = append(r.running, t)
	}
}

// EndAttempt ends the first of the attempts that have begun, as a goroutine that was started earlier
// would.
func (r *Replica) EndAttempt() {
	next := r.running[0]
	r.running = r.running[1:]
	r.deliver(next)
}

// CutOffAttempt does the same while the process stops.
func (r *Replica) CutOffAttempt() {
	running := r.cut
	defer func() { r.cut = running }()
	var cut context.CancelFunc
	r.cut, cut = context.WithCancel(running)
	cut()
	r.EndAttempt()
}

// Write writes the results of attempts.
func (r *Replica) Write() {
	if len(r.results.queue) > 0 {
		r.finish(r.results.batch(<-r.results.queue))
	}
}

// Resume calls back all lanes, as the timers of those that wait for their rate would.
func (r *Replica) Resume() {
	for _, n := range r.lanes.byID {
		r.start(r.lanes.resume(n))
	}
}

// Sending returns how many attempts to a destination are being made.
func (r *Replica) Sending(destinationID string) int {
	if n := r.lanes.byID[destinationID]; n != nil {
		return n.sending
	}
	return 0
}

// InUse returns what is used of the budget.
func (r *Replica) InUse() (bytes int64, sockets int) { return r.lanes.inUse() }

// What tests of the scheduler need to know.
const (
	ReadAhead   = readAhead
	RenewBefore = renewBefore
)

// IsClosed reports whether the scheduler starts nothing any more.
func (s *Scheduler) IsClosed() bool {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	return s.lanes.closed
}

// Share returns how many bytes a destination may hold.
func (s *Scheduler) Share() int64 { return s.lanes.budget.share() }

// Write writes results of rows of a destination, as if they had been collected.
func (s *Scheduler) Write(destinationID string, results []Result) {
	var batch []ended
	for _, r := range results {
		batch = append(batch, ended{task: &Task{Row: r.Row, lane: s.lanes.lane(destinationID)}, result: r})
	}
	s.finish(batch)
}
