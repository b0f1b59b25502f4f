package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/stamp"
)

// laneModel drives the lanes of a process through a random history. The database is a map, in which
// another process may take leases that have ended. What the lanes say is checked against it: nothing is
// attempted twice at once or without a lease, and nothing is lost.
type laneModel struct {
	*lanes
	rt   *rapid.T
	at   time.Time
	last int

	rows    map[string][]Row // the queue in its order, by destination
	held    map[string]modelLease
	reads   []modelRead
	running []*Task
	ended   []*Task // attempts whose results are not written
	done    map[string]bool

	began  map[string][]time.Time // attempts, by destination
	others map[string]stamp.Time  // until when another process had the lease before this one
}

// modelRates are the rates of destinations that have one.
var modelRates = map[string]Rate{"b": {Limit: 3, Per: 4 * time.Second}, "c": {Limit: 1, Per: 100 * time.Millisecond}}

// modelLease is a row of webhook_leases.
type modelLease struct {
	ours  bool
	until stamp.Time
}

// modelRead is a read whose rows may be old when they are used.
type modelRead struct {
	lane *lane
	rows []Row
	more bool
}

var modelDestinations = []string{"a", "b", "c"}

func newLaneModel(rt *rapid.T) *laneModel {
	m := &laneModel{
		rt: rt, at: time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC),
		rows: map[string][]Row{}, held: map[string]modelLease{}, done: map[string]bool{},
		began: map[string][]time.Time{}, others: map[string]stamp.Time{},
	}
	m.lanes = newLanes(func() time.Time { return m.at }, 0, 0)
	m.readAhead = 4
	m.budget = sendBudget{maxBytes: 8 * (taskBytes + 64), reserveBytes: 3 * taskBytes, maxSockets: 4, reserveSockets: 1, shares: 2}
	return m
}

func (m *laneModel) pick(n int, what string) int { return int(rapid.Uint32().Draw(m.rt, what)) % n }

func (m *laneModel) destination() string {
	return modelDestinations[m.pick(len(modelDestinations), "destination")]
}

func (m *laneModel) now() stamp.Time { return stamp.Of(m.at) }

// commit adds rows, of which this process is told or not. They may be due earlier than others that were
// committed before.
func (m *laneModel) commit() {
	to := m.destination()
	for range 1 + m.pick(4, "rows") {
		m.last++
		due := m.now().Add(-time.Duration(m.pick(200, "late")) * time.Millisecond)
		m.rows[to] = append(m.rows[to], Row{Key: fmt.Sprintf("%05d", m.last), DestinationID: to, DueAt: due})
	}
	slices.SortFunc(m.rows[to], func(a, b Row) int { return (&Task{Row: a}).compare(&Task{Row: b}) })
	if m.pick(2, "woken") == 0 {
		m.wake([]string{to})
	}
}

func (m *laneModel) discover() {
	var heads []Head
	for _, to := range modelDestinations {
		isOthers := !m.held[to].ours && m.held[to].until > m.now()
		if len(m.rows[to]) > 0 && !isOthers {
			heads = append(heads, Head{Row: m.rows[to][0]})
		}
	}
	m.start(m.discovered(heads))
}

// start notes attempts that begin.
func (m *laneModel) start(tasks []*Task) {
	for _, t := range tasks {
		if slices.ContainsFunc(m.running, func(o *Task) bool { return o.Key == t.Key }) {
			m.rt.Fatalf("%s is attempted twice at once", t.Key)
		}
		if m.done[t.Key] {
			m.rt.Fatalf("%s is attempted after its result was written", t.Key)
		}
		if lease := m.held[t.DestinationID]; !lease.ours || lease.until <= m.now() {
			m.rt.Fatalf("%s is attempted without a lease", t.Key)
		}
		m.running = append(m.running, t)
		m.checkRate(t.DestinationID)
	}
}

// checkRate notes an attempt that begins. Not more than the rate allows may begin in a period, also if
// another process has used it up to the end of its lease.
func (m *laneModel) checkRate(to string) {
	rate, ok := modelRates[to]
	if !ok {
		return
	}
	m.began[to] = append(m.began[to], m.at)
	if n := len(m.began[to]); n > rate.Limit && m.at.Sub(m.began[to][n-1-rate.Limit]) < rate.Per {
		m.rt.Fatalf("%d attempts to %s within %s", rate.Limit+1, to, m.at.Sub(m.began[to][n-1-rate.Limit]))
	}
	if others := m.others[to]; others != 0 && m.now().Sub(others) < rate.Per/time.Duration(rate.Limit) {
		m.rt.Fatalf("an attempt to %s %s after another process had the lease", to, m.now().Sub(others))
	}
}

// resumeAll calls back lanes that wait for their rate, in time or not.
func (m *laneModel) resumeAll() {
	m.at = m.at.Add(time.Duration(m.pick(500, "milliseconds")) * time.Millisecond)
	for _, to := range modelDestinations {
		if n := m.byID[to]; n != nil {
			m.start(m.resume(n))
		}
	}
}

// lease asks for leases, of which some are refused although they are free: their rows are locked.
func (m *laneModel) lease(refuse bool) {
	m.expire()
	asked := slices.Sorted(slices.Values(m.leasesToTake())) // they come in any order
	until := m.now().Add(LeaseFor)
	var held []string
	for _, to := range asked {
		lease := m.held[to]
		if !lease.ours && lease.until > m.now() || refuse && m.pick(4, "locked") == 0 {
			continue
		}
		if !lease.ours && lease.until != 0 {
			m.others[to] = lease.until
		}
		m.held[to] = modelLease{ours: true, until: until}
		held = append(held, to)
	}
	m.leased(asked, held, until)
}

// takeOver has another process take a lease that has ended.
func (m *laneModel) takeOver() {
	if to := m.destination(); m.held[to].until <= m.now() {
		m.held[to] = modelLease{until: m.now().Add(LeaseFor)}
	}
}

func (m *laneModel) beginRead() {
	n, p := m.nextRead()
	if n == nil {
		return
	}
	r := modelRead{lane: n}
	for _, row := range m.rows[n.id] {
		if len(r.rows) < p.Limit && row.DueAt >= p.Since {
			row.Size = int64(m.pick(200, "size"))
			r.rows = append(r.rows, row)
		}
	}
	r.more = len(r.rows) == p.Limit
	m.reads = append(m.reads, r)
}

// finishRead uses rows of a read, also those whose result was written since: the lanes must know them.
// Some cannot be loaded this time.
func (m *laneModel) finishRead() {
	if len(m.reads) == 0 {
		return
	}
	i := m.pick(len(m.reads), "read")
	r := m.reads[i]
	m.reads = slices.Delete(m.reads, i, i+1)
	tasks, left := m.choose(r.lane, r.rows)
	for _, t := range tasks {
		if m.pick(16, "loaded") > 0 {
			t.ReceiptKey = t.Key
		}
	}
	limits := Limits{Concurrency: 1 + m.pick(3, "slots"), Rate: modelRates[r.lane.id], OthersUntil: m.others[r.lane.id]}
	m.start(m.endRead(r.lane, readEnd{tasks: tasks, limits: limits, more: r.more, left: left}))
}

func (m *laneModel) breakRead() {
	if len(m.reads) > 0 {
		tasks, _ := m.choose(m.reads[0].lane, m.reads[0].rows)
		m.failRead(m.reads[0].lane, tasks)
		m.reads = m.reads[1:]
	}
}

// end ends an attempt. If it was cut off, it has no result.
func (m *laneModel) end(cutOff bool) {
	if len(m.running) == 0 {
		return
	}
	i := m.pick(len(m.running), "attempt")
	t := m.running[i]
	m.running = slices.Delete(m.running, i, i+1)
	next := m.sent(t, int64(m.pick(100, "response")))
	m.attempts.Done()
	if cutOff {
		m.untried(t)
	} else {
		m.ended = append(m.ended, t)
	}
	m.start(next)
}

// write writes results: those of destinations whose lease this process has lost stay in the queue.
func (m *laneModel) write() {
	tasks := m.ended
	m.ended = nil
	for _, t := range tasks {
		to := t.DestinationID
		i := slices.IndexFunc(m.rows[to], func(r Row) bool { return r.Key == t.Key })
		if m.held[to].ours && i >= 0 {
			m.rows[to] = slices.Delete(m.rows[to], i, i+1)
			m.done[t.Key] = true
		}
	}
	m.start(m.written(tasks))
}

func (m *laneModel) step() {
	steps := []func(){
		m.commit, m.commit, m.discover, m.beginRead, m.beginRead, m.finishRead, m.finishRead, m.breakRead, m.takeOver, m.write, m.write, m.resumeAll, m.resumeAll,
		func() { m.lease(true) }, func() { m.lease(true) }, func() { m.end(false) }, func() { m.end(false) }, func() { m.end(true) },
		func() { m.at = m.at.Add(time.Duration(m.pick(40, "seconds")) * time.Second) },
	}
	steps[m.pick(len(steps), "step")]()
}

// settle lets the process work until the queue is empty.
func (m *laneModel) settle() {
	for range 200 {
		m.at = m.at.Add(2 * time.Second)
		m.lease(false)
		m.discover()
		m.beginRead()
		for len(m.reads) > 0 {
			m.finishRead()
		}
		m.resumeAll()
		for len(m.running) > 0 {
			m.end(false)
		}
		m.write()
	}
	for to, rows := range m.rows {
		if len(rows) > 0 {
			m.rt.Fatalf("%s: %v are never sent; the lane is %s", to, rows, m.byID[to].state)
		}
	}
	if bytes, sockets := m.inUse(); bytes != 0 || sockets != 0 {
		m.rt.Fatalf("%d bytes and %d sockets were not released", bytes, sockets)
	}
}

// TestLanesLoseNothingAndSendNothingTwiceAtOnce draws random histories of one process.
func TestLanesLoseNothingAndSendNothingTwiceAtOnce(t *testing.T) {
	for range 10 {
		rapid.Check(t, func(rt *rapid.T) {
			m := newLaneModel(rt)
			for range rapid.IntRange(10, 200).Draw(rt, "steps") {
				m.step()
			}
			m.settle()
		})
	}
}
