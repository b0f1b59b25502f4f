package queue

import (
	"slices"
	"testing"
	"time"

	"steward/internal/stamp"
)

// laneFixture drives lanes without a database. Rows are named by their keys, and due in their order.
type laneFixture struct {
	*lanes
	t  *testing.T
	at time.Time
}

func newLaneFixture(t *testing.T) *laneFixture {
	f := &laneFixture{t: t, at: time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC)}
	f.lanes = newLanes(func() time.Time { return f.at }, 48, 128<<20)
	return f
}

func (f *laneFixture) advance(d time.Duration) { f.at = f.at.Add(d) }

// hold leases destinations.
func (f *laneFixture) hold(destinationIDs ...string) {
	for _, destinationID := range destinationIDs {
		f.lane(destinationID)
	}
	f.leased(destinationIDs, destinationIDs, stamp.Of(f.at.Add(LeaseFor)))
}

// readRows reads the next lane, in which the queue has these rows of one byte, and returns the keys
// of what is sent.
func (f *laneFixture) readRows(keys ...string) []string {
	f.t.Helper()
	n, p := f.nextRead()
	if n == nil {
		f.t.Fatal("no lane is to be read")
	}
	return f.endReadOf(n, p.Limit, 1, keys...)
}

func (f *laneFixture) endReadOf(n *lane, limit int, size int64, keys ...string) []string {
	var rows []Row
	for _, key := range keys {
		rows = append(rows, Row{Key: key, Size: size})
	}
	chosen, left := f.choose(n, rows)
	for _, t := range chosen {
		t.ReceiptKey = t.Key
	}
	return keysOfTasks(f.endRead(n, readEnd{tasks: chosen, limits: Limits{Concurrency: n.slots}, more: len(rows) == limit, left: left}))
}

func keysOfTasks(tasks []*Task) (keys []string) {
	for _, t := range tasks {
		keys = append(keys, t.Key)
	}
	return keys
}

// end ends attempts, whose results are written at once.
func (f *laneFixture) end(destinationID string, keys ...string) (started []string) {
	f.t.Helper()
	for _, key := range keys {
		t := f.byID[destinationID].inFlight[key]
		if t == nil {
			f.t.Fatalf("%s is not in flight", key)
		}
		started = append(started, keysOfTasks(f.sent(t, 1))...)
		started = append(started, keysOfTasks(f.written([]*Task{t}))...)
	}
	return started
}

func (f *laneFixture) want(what string, got []string, want ...string) {
	f.t.Helper()
	if !slices.Equal(got, want) {
		f.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func (f *laneFixture) wantState(destinationID string, want laneState) {
	f.t.Helper()
	if got := f.byID[destinationID].state; got != want {
		f.t.Errorf("%s is in state %s, want %s", destinationID, got, want)
	}
}

func TestRowThatIsCommittedLateGoesFirst(t *testing.T) {
	f := newLaneFixture(t)
	f.hold("d")
	f.lane("d").slots = 1
	f.wake([]string{"d"})
	f.want("first read", f.readRows("2", "4", "5"), "2")
	f.wake([]string{"d"})
	f.want("second read", f.readRows("2", "3", "4", "5"))
	f.want("after 2", f.end("d", "2"), "3")
	f.want("after 3", f.end("d", "3"), "4")
}

func TestRowsCommittedDuringAReadAreReadAgain(t *testing.T) {
	f := newLaneFixture(t)
	f.hold("d")
	f.wake([]string{"d"})
	n, p := f.nextRead()
	f.wake([]string{"d"})
	f.wantState("d", laneStale)
	f.want("first read", f.endReadOf(n, p.Limit, 1, "1"), "1")
	f.wantState("d", laneQueued)
	f.want("second read", f.readRows("1", "2"), "2")
	f.wantState("d", laneIdle)
}

// TestResultWrittenDuringAReadIsNotSentAgain: the reader has seen the row, which is gone when it is
// done.
func TestResultWrittenDuringAReadIsNotSentAgain(t *testing.T) {
	f := newLaneFixture(t)
	f.hold("d")
	f.wake([]string{"d"})
	f.want("first read", f.readRows("1"), "1")
	f.wake([]string{"d"})
	n, p := f.nextRead()
	f.end("d", "1")
	f.want("second read", f.endReadOf(n, p.Limit, 1, "1", "2"), "2")
	if len(n.inFlight) != 1 {
		t.Errorf("%d rows are in flight", len(n.inFlight))
	}
}

func TestLaneWithoutALeaseAsksForOne(t *testing.T) {
	f := newLaneFixture(t)
	f.wake([]string{"d"})
	f.wantState("d", laneWanted)
	f.want("wanted", f.leasesToTake(), "d")
	f.leased([]string{"d"}, nil, 0)
	f.wantState("d", laneIdle)
	f.want("after another process has it", f.leasesToTake())
}

func TestExpiredLeaseSendsNothing(t *testing.T) {
	f := newLaneFixture(t)
	f.hold("d")
	f.lane("d").slots = 1
	f.wake([]string{"d"})
	f.want("read", f.readRows("1", "2"), "1")
	f.advance(LeaseFor)
	f.want("after 1", f.end("d", "1"))
	f.wantState("d", laneWanted)
	if n := len(f.byID["d"].inFlight); n != 0 {
		t.Errorf("%d rows are in flight", n)
	}
}

// TestHangingDestinationsLeaveRoomForOthers: they use up the budget for sockets, and the others
// take turns with what is in reserve.
func TestHangingDestinationsLeaveRoomForOthers(t *testing.T) {
	f := newLaneFixture(t)
	f.budget = sendBudget{maxBytes: 1 << 30, reserveBytes: 1 << 30, maxSockets: 4, reserveSockets: 1, shares: 2}
	f.hold("a", "b", "c", "d")
	for _, id := range []string{"a", "b", "c", "d"} {
		f.wake([]string{id})
		got := f.readRows(id+"1", id+"2", id+"3")
		switch id {
		case "a", "b":
			f.want(id+", which hangs", got, id+"1", id+"2")
		case "c":
			f.want("c, from the reserve", got, "c1")
		case "d":
			f.want("d, which waits", got)
		}
	}
	f.want("after c1", f.end("c", "c1"), "d1")
	f.want("after d1", f.end("d", "d1"), "c2")
	f.want("after c2", f.end("c", "c2"), "d2")
	f.want("after a1", f.end("a", "a1"), "c3")
}

// TestMemoryLeavesRoomForOthers does the same for bytes: what does not fit stays in the queue.
func TestMemoryLeavesRoomForOthers(t *testing.T) {
	f := newLaneFixture(t)
	f.budget = sendBudget{maxBytes: 40_000, reserveBytes: 10_000, maxSockets: 100, reserveSockets: 100, shares: 2}
	f.hold("a", "b", "c", "d")
	const size = 9_000 - taskBytes
	for _, id := range []string{"a", "b", "c", "d"} {
		f.wake([]string{id})
		n, p := f.nextRead()
		got := f.endReadOf(n, p.Limit, size, id+"1", id+"2", id+"3")
		switch id {
		case "a", "b":
			f.want(id+", which hangs", got, id+"1", id+"2")
		case "c":
			f.want("c, from the reserve", got, "c1")
		case "d":
			f.want("d, which waits", got)
		}
		f.wantState(id, laneFull)
	}
	f.end("c", "c1") // has c and d read again
	f.wantState("c", laneQueued)
	f.wantState("d", laneQueued)
}

func TestIdleLanesAreForgotten(t *testing.T) {
	f := newLaneFixture(t)
	f.hold("idle", "busy")
	f.wake([]string{"idle"})
	f.want("idle", f.readRows("1"), "1")
	f.end("idle", "1")
	f.wake([]string{"busy"})
	f.want("busy", f.readRows("2"), "2")
	f.advance(3 * LeaseFor)
	f.expire()
	if f.byID["idle"] != nil || f.byID["busy"] == nil {
		t.Errorf("lanes %v", f.byID)
	}
}

// TestQueueIsReadWhereTheLastReadEnded follows from where a queue is read: from shortly before the last row
// that was read, and from its head when a row may be before that.
func TestQueueIsReadWhereTheLastReadEnded(t *testing.T) {
	f := newLaneFixture(t)
	f.hold("d")
	due := stamp.Of(f.at)
	read := func(what string, want stamp.Time) {
		t.Helper()
		f.wake([]string{"d"})
		n, p := f.nextRead()
		if p.Since != want {
			t.Errorf("%s: read from %d, want %d", what, p.Since, want)
		}
		chosen, _ := f.choose(n, []Row{{Key: what, DestinationID: "d", DueAt: due, Size: 1}})
		chosen[0].ReceiptKey = what
		f.endRead(n, readEnd{tasks: chosen, limits: Limits{Concurrency: 10}})
	}
	read("first", 0)
	read("second", due.Add(-overlap))
	f.untried(f.byID["d"].inFlight["second"])
	read("after an attempt that was not made", 0)
	read("third", due.Add(-overlap))
	f.discovered([]Head{{Row: Row{Key: "late", DestinationID: "d"}}})
	read("after a row that was not read", 0)
	f.advance(rereadAfter)
	read("after a second", 0)
	f.advance(LeaseFor)
	f.expire()
	f.hold("d")
	read("after another lease", 0)
}

// TestRateSpacesAttempts follows a destination that may get ten attempts in a second.
func TestRateSpacesAttempts(t *testing.T) {
	f := newLaneFixture(t)
	var waits []time.Duration
	f.later = func(_ *lane, after time.Duration) { waits = append(waits, after) }
	f.hold("d")
	f.wake([]string{"d"})
	n, _ := f.nextRead()
	var rows []Row
	for _, key := range []string{"1", "2", "3", "4"} {
		rows = append(rows, Row{Key: key, DestinationID: "d", Size: 1})
	}
	chosen, _ := f.choose(n, rows)
	for _, t := range chosen {
		t.ReceiptKey = t.Key
	}
	limits := Limits{Concurrency: 10, Rate: Rate{Limit: 10, Per: time.Second}}
	f.want("at once", keysOfTasks(f.endRead(n, readEnd{tasks: chosen, limits: limits})), "1")
	if len(waits) != 1 || waits[0] != 82*time.Millisecond {
		t.Fatalf("waits %v", waits)
	}
	f.advance(waits[0] - time.Microsecond)
	f.want("too soon", keysOfTasks(f.resume(n)))
	f.advance(lateness + time.Microsecond)
	f.want("20 ms late", keysOfTasks(f.resume(n)), "2")
	f.want("after two", f.end("d", "1", "2"))
	f.advance(82 * time.Millisecond) // it has caught up
	f.want("in time", keysOfTasks(f.resume(n)), "3")
	f.advance(10 * time.Second)
	f.want("much later", keysOfTasks(f.resume(n)), "4")
	if f.ahead(n) != 10 {
		t.Errorf("%d may wait in memory", f.ahead(n))
	}
}
