package queue

import (
	"fmt"

	"steward/internal/stamp"
)

// laneState tells how much we know about the due rows in a destination's queue.
type laneState int

// A lane's states. docs/states.md shows the events that move it from one to another.
const (
	laneIdle    laneState = iota // we know of nothing due
	laneWanted                   // rows are due, but we do not hold the lease
	laneQueued                   // rows are due, and the lane waits for a reader
	laneReading                  // a reader reads the queue
	laneStale                    // as laneReading, and more rows were committed since the read began
	laneFull                     // rows may be due, but there is no room for them
	laneStates
)

func (s laneState) String() string {
	return [laneStates]string{"idle", "wanted", "queued", "reading", "stale", "full"}[s]
}

// isReading reports whether a reader works on the lane.
func (s laneState) isReading() bool { return s == laneReading || s == laneStale }

// laneEvent is something that happens to a lane.
type laneEvent int

const (
	rowsDue      laneEvent = iota // rows were committed or discovered, or a read left them and there is room now
	leaseGranted                  // we took or renewed the lease
	leaseHeld                     // seekLease found that we hold the lease
	leaseRefused                  // the lease has ended, and another process has it or its row is locked
	leaseEnded                    // the lease has ended, and there was nothing to drop
	tasksDropped                  // the lease has ended, and we dropped unsent tasks
	readerFree                    // a reader has come to the lane
	readEnded                     // the reader is done, or has failed
	rowsLeft                      // a read that has just ended left rows for lack of room
	roomFound                     // there is room for more rows
	laneEvents
)

func (e laneEvent) String() string {
	return [laneEvents]string{
		"rows due", "lease granted", "lease held", "lease refused", "lease ended", "tasks dropped", "reader free", "read ended",
		"rows left", "room found",
	}[e]
}

// laneAction is a transition's side effect.
type laneAction int

// The actions. fire carries out the first ones and leaves the last three to its caller.
const (
	noAction    laneAction = iota
	seekLease              // if we hold the lease, leaseHeld follows; if not, the lease loop asks for it
	askForLease            // the lease loop asks for the lease
	waitForRead            // the lane joins the queue for readers
	startRead              // the reader reads the queue
	readAgain              // read the rows that were committed during the read
	waitForRoom            // the lane waits for the budget, if it has nothing in memory
)

func (a laneAction) String() string {
	return []string{"", "seek lease", "ask for lease", "wait for read", "start read", "read again", "wait for room"}[a]
}

// transition is an event's effect on a lane in a given state.
type transition struct {
	next   laneState
	action laneAction
	// never reports whether the event cannot happen in that state.
	never bool
}

// never marks events that cannot happen in a state.
var never = transition{never: true}

// transitions lists every lane state and event. Nothing else moves a lane from one state to another.
var transitions = [laneStates][laneEvents]transition{
	laneIdle: {
		rowsDue:      {next: laneWanted, action: seekLease},
		leaseGranted: {next: laneIdle},
		leaseHeld:    never,
		leaseRefused: {next: laneIdle},
		leaseEnded:   {next: laneIdle},
		tasksDropped: {next: laneWanted, action: askForLease},
		readerFree:   {next: laneIdle},
		readEnded:    never,
		rowsLeft:     {next: laneFull, action: waitForRoom},
		roomFound:    {next: laneIdle},
	},
	laneWanted: {
		rowsDue:      {next: laneWanted},
		leaseGranted: {next: laneWanted, action: seekLease},
		leaseHeld:    {next: laneQueued, action: waitForRead},
		leaseRefused: {next: laneIdle},
		leaseEnded:   {next: laneWanted},
		tasksDropped: {next: laneWanted, action: askForLease},
		readerFree:   {next: laneWanted},
		readEnded:    never,
		rowsLeft:     {next: laneWanted},
		roomFound:    {next: laneWanted},
	},
	laneQueued: {
		rowsDue:      {next: laneQueued},
		leaseGranted: {next: laneQueued},
		leaseHeld:    never,
		leaseRefused: never, // it has ended before
		leaseEnded:   {next: laneWanted, action: askForLease},
		tasksDropped: {next: laneWanted, action: askForLease},
		readerFree:   {next: laneReading, action: startRead},
		readEnded:    never,
		rowsLeft:     never,
		roomFound:    {next: laneQueued},
	},
	laneReading: {
		rowsDue:      {next: laneStale},
		leaseGranted: {next: laneReading},
		leaseHeld:    never,
		leaseRefused: {next: laneReading},
		leaseEnded:   {next: laneReading},
		tasksDropped: {next: laneReading},
		readerFree:   {next: laneReading},
		readEnded:    {next: laneIdle},
		rowsLeft:     never,
		roomFound:    {next: laneReading},
	},
	laneStale: {
		rowsDue:      {next: laneStale},
		leaseGranted: {next: laneStale},
		leaseHeld:    never,
		leaseRefused: {next: laneStale},
		leaseEnded:   {next: laneStale},
		tasksDropped: {next: laneStale},
		readerFree:   {next: laneStale},
		readEnded:    {next: laneIdle, action: readAgain},
		rowsLeft:     never,
		roomFound:    {next: laneStale},
	},
	laneFull: {
		rowsDue:      {next: laneFull},
		leaseGranted: {next: laneFull},
		leaseHeld:    never,
		leaseRefused: never, // it has ended before
		leaseEnded:   {next: laneWanted, action: askForLease},
		tasksDropped: {next: laneWanted, action: askForLease},
		readerFree:   {next: laneFull},
		readEnded:    never,
		rowsLeft:     never,
		roomFound:    {next: laneWanted, action: seekLease},
	},
}

// fire moves a lane on by an event, and returns the action. It panics if the event cannot happen.
func (l *lanes) fire(n *lane, e laneEvent) laneAction {
	t := transitions[n.state][e]
	if t.never {
		panic(fmt.Sprintf("queue: a lane that is %s cannot have the event %q", n.state, e))
	}
	n.state = t.next
	switch t.action {
	case seekLease:
		l.seekLease(n)
	case askForLease:
		signal(l.leases)
	case waitForRead:
		l.queue = append(l.queue, n)
		signal(l.reads)
	}
	return t.action
}

// seekLease queues a lane for a reader if we hold its lease. If not, it asks for the lease first.
func (l *lanes) seekLease(n *lane) {
	now := stamp.Of(l.now())
	n.used = now
	if n.lease <= now {
		signal(l.leases)
		return
	}
	l.fire(n, leaseHeld)
}
