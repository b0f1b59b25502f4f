package webhook

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/id"
	"steward/internal/stamp"
	"steward/internal/webhook/send"
)

// simulation runs replicas step by step: accepting, discovering, leasing, the two halves of a read,
// sending and writing results are steps of a random history, with crashes and lost leases between
// any two of them. Time passes only when the history says so. The database is a real one, the
// network is not.
type simulation struct {
	*fixture
	rt       *rapid.T
	hook     Webhook
	to       []Destination
	replicas []*replica
	started  int // replicas that there ever were

	sent  map[string]int      // attempts by delivery
	first map[string][]string // receipts of first attempts by URL, in the order in which they began

	calm    bool // no replica has crashed or lost a lease: nothing is sent twice, and the order holds
	faults  bool // the network fails
	retried bool // a user asked for another attempt
}

// replica is a process: what it has in memory, which a crash loses.
type replica struct {
	*Scheduler
	running []*task // attempts that have begun
	reads   []openRead
}

// openRead is a read whose rows were read, but not yet used.
type openRead struct {
	lane *lane
	rows []dueRow
	more bool
}

// pick draws a number below n, each with the same probability; rapid prefers small ones.
func (s *simulation) pick(n int, what string) int { return int(rapid.Uint32().Draw(s.rt, what)) % n }

// newReplica adds a replica with small limits, so that histories reach them.
func (s *simulation) newReplica() *replica {
	s.started++
	store := sameStore(s.store, fmt.Sprintf("rep_%d_%s", s.started, s.hook.orgID))
	r := &replica{Scheduler: &Scheduler{Store: store, Send: s.send, Log: silent, lanes: newLanes(store.Now, 0, 0)}}
	store.Wake = r.Wake
	r.cut = s.fixture.t.Context()
	r.results = &resultQueue{queue: make(chan ended, 100)}
	r.lanes.readAhead = 4
	r.lanes.budget = sendBudget{
		maxBytes: 8 * (taskBytes + 64), reserveBytes: 3 * taskBytes, maxSockets: 4, reserveSockets: 1, shares: 2,
	}
	r.spawn = func(t *task) {
		if t.lane.lease <= stamp.Of(s.clock.now()) {
			s.rt.Fatalf("%s is sent without a lease", t.ID)
		}
		r.running = append(r.running, t)
	}
	return r
}

// send is the network.
func (s *simulation) send(_ context.Context, r send.Request) send.Result {
	s.sent[r.DeliveryID]++
	if s.sent[r.DeliveryID] > 1 && s.calm {
		s.rt.Fatalf("%s was sent twice", r.DeliveryID)
	}
	if r.Attempt == 0 {
		s.first[r.URL] = append(s.first[r.URL], r.ReceiptID)
	}
	if s.faults && s.pick(4, "fails") == 0 {
		return send.Result{Error: "no", RetryAfter: time.Second, Gone: s.pick(20, "gone") == 0}
	}
	return ok()
}

func (s *simulation) setUp() {
	must(s.tb(), s.db.Write(s.fixture.t.Context(), func(tx *db.Tx) error { // what a history that failed has left
		_, err := tx.Exec(`DELETE FROM webhook_queue`)
		return err
	}))
	caller := *alice
	caller.OrgID = id.New(id.Org)
	s.hook, _ = s.webhook(&caller)
	s.hook.orgID = caller.OrgID
	for i := range rapid.IntRange(1, 3).Draw(s.rt, "destinations") {
		s.to = append(s.to, s.destination(&caller, s.hook.ID, fmt.Sprintf(`{"url": "http://sink%d.test", "max_retries": 2, "concurrency": %d}`,
			i, rapid.IntRange(1, 3).Draw(s.rt, "concurrency"))))
	}
	for range rapid.IntRange(1, 3).Draw(s.rt, "replicas") {
		s.replicas = append(s.replicas, s.newReplica())
	}
}

// tb lets helpers that take a testing.TB fail the history, so that rapid prints and shrinks it.
func (s *simulation) tb() testing.TB { return historyTB{s.fixture.t, s.rt} }

type historyTB struct {
	testing.TB
	rt *rapid.T
}

func (h historyTB) Fatal(args ...any)                 { h.rt.Fatal(args...) }
func (h historyTB) Fatalf(format string, args ...any) { h.rt.Fatalf(format, args...) }

// What may happen, each as often as it is listed.
var (
	calmSteps = []string{
		"accept", "accept", "accept", "roll back", "discover", "lease", "lease", "read", "read", "read", "load", "load", "load",
		"send", "send", "send", "send", "send", "write", "write", "wait", "fail read",
	}
	faultySteps = append([]string{"lose leases", "crash", "disable", "retry", "untried"}, calmSteps...)
)

func (s *simulation) step(r *replica, steps []string) {
	ctx := s.fixture.t.Context()
	switch steps[s.pick(len(steps), "step")] {
	case "accept":
		s.acceptSome(r, nil)
	case "roll back":
		s.acceptSome(r, errRolledBack)
	case "discover":
		r.discover(ctx)
	case "lease":
		r.lanes.expire()
		r.takeLeases(ctx)
	case "read":
		s.read(r)
	case "load":
		s.load(r)
	case "fail read":
		if len(r.reads) > 0 {
			chosen, _ := r.lanes.choose(r.reads[0].lane, r.reads[0].rows)
			r.lanes.failRead(r.reads[0].lane, chosen)
			r.reads = r.reads[1:]
		}
	case "send":
		s.finishAttempt(r)
	case "write":
		s.write(r)
	case "wait":
		s.clock.advance(time.Duration(rapid.IntRange(1, 2000).Draw(s.rt, "ms")) * time.Millisecond)
		for _, each := range s.replicas { // leases in use are renewed in time
			each.takeLeases(ctx)
		}
	case "lose leases":
		s.calm = false
		s.clock.advance(leaseFor + time.Second)
	case "crash":
		s.calm = false
		s.replicas[slices.Index(s.replicas, r)] = s.newReplica()
	case "untried": // the results cannot be queued: the process stops
		s.calm = false
		if len(r.running) > 0 {
			var cut context.CancelFunc
			r.cut, cut = context.WithCancel(ctx)
			cut()
			s.finishAttempt(r)
			r.cut = ctx
		}
	case "retry":
		s.retryOne()
	case "disable":
		to := s.to[s.pick(len(s.to), "destination")]
		must(s.tb(), s.db.Write(ctx, func(tx *db.Tx) error { return s.store.disableGone(tx, to.ID) }))
	}
	for _, each := range s.replicas { // nothing watches the caches of a simulated replica
		each.targets.Forget()
	}
	s.checkConcurrency()
}

func (s *simulation) acceptSome(r *replica, fault error) {
	var batch []*arrival
	for range rapid.IntRange(1, 4).Draw(s.rt, "receipts") {
		batch = append(batch, &arrival{receipt: textReceipt(s.hook, alice, "x")})
		batch[len(batch)-1].receipt.orgID = s.hook.orgID
	}
	err := s.db.Write(s.fixture.t.Context(), func(tx *db.Tx) error {
		if err := r.Store.acceptBatch(tx, batch); err != nil {
			return err
		}
		return fault
	})
	if fault == nil {
		must(s.tb(), err)
	}
}

// read is the first half of a read: the rows may be old when they are used.
func (s *simulation) read(r *replica) {
	n, limit := r.lanes.nextRead()
	if n == nil {
		return
	}
	rows, err := r.Store.Due(s.fixture.t.Context(), n.id, limit)
	must(s.tb(), err)
	r.reads = append(r.reads, openRead{n, rows, len(rows) == limit})
}

// load is the second half.
func (s *simulation) load(r *replica) {
	if len(r.reads) == 0 {
		return
	}
	i := s.pick(len(r.reads), "read")
	open := r.reads[i]
	r.reads = slices.Delete(r.reads, i, i+1)
	r.Scheduler.load(s.fixture.t.Context(), open.lane, open.rows, open.more)
}

// finishAttempt ends one of the attempts that a replica has begun. The first of each destination is
// sent first, as a goroutine that was started earlier would.
func (s *simulation) finishAttempt(r *replica) {
	if len(r.running) == 0 {
		return
	}
	next := r.running[0]
	r.running = r.running[1:]
	r.deliver(next)
}

func (s *simulation) write(r *replica) {
	if len(r.results.queue) > 0 {
		r.finish(r.results.batch(<-r.results.queue))
	}
}

// checkConcurrency checks that no more is being sent to a destination than it allows, by all
// replicas together.
func (s *simulation) checkConcurrency() {
	if !s.calm {
		return
	}
	for _, to := range s.to {
		sending := 0
		for _, r := range s.replicas {
			if n := r.lanes.byID[to.ID]; n != nil {
				sending += n.sending
			}
		}
		if sending > to.Config.Concurrency {
			s.rt.Fatalf("%d attempts at the same time, concurrency %d", sending, to.Config.Concurrency)
		}
	}
}

func (s *simulation) retryOne() {
	failed, err := s.store.Deliveries(s.fixture.t.Context(), s.hook.orgID, s.hook.ID, Filter{Status: Failed}, pageOf(5))
	must(s.tb(), err)
	if len(failed.Items) > 0 {
		d := failed.Items[s.pick(len(failed.Items), "failed")]
		_, err := s.store.Retry(as(alice), s.hook.orgID, s.hook.ID, d.ID) // a disabled destination refuses it
		s.retried = s.retried || err == nil
	}
}

// settle ends the faults and lets the replicas work until nothing is pending.
func (s *simulation) settle() {
	ctx := s.fixture.t.Context()
	s.faults = false
	for range 300 {
		for _, r := range s.replicas {
			for r.lanes.expire(); len(r.reads) > 0; {
				s.load(r)
			}
			r.discover(ctx)
			r.takeLeases(ctx)
			s.read(r)
			s.load(r)
			for len(r.running) > 0 {
				s.finishAttempt(r)
			}
			s.write(r)
		}
		if s.count(`status = 'pending'`) == 0 {
			return
		}
		if s.due() == 0 {
			s.clock.advance(time.Hour)
		} else {
			s.clock.advance(time.Second)
		}
	}
	s.rt.Fatalf("%d deliveries never end", s.count(`status = 'pending'`))
}

func (s *simulation) due() int {
	heads, err := s.store.Heads(s.fixture.t.Context())
	must(s.tb(), err)
	return len(heads)
}

func (s *simulation) count(where string) (n int) {
	q := s.db.Read(s.fixture.t.Context())
	must(s.tb(), q.Row(`SELECT count(*) FROM webhook_deliveries WHERE `+ofOrg+` AND `+where, s.hook.orgID).Scan(&n))
	return n
}

// check checks what must hold after every history.
func (s *simulation) check() {
	if s.calm {
		for url, receipts := range s.first {
			if !slices.IsSorted(receipts) {
				s.rt.Fatalf("first attempts to %s did not begin in order: %v", url, receipts)
			}
		}
	}
	// A chain has each attempt once, from 0 up, and nothing after a success unless a user asked for it.
	after := "success"
	if s.retried {
		after = "no such status"
	}
	bad := s.count(`EXISTS (SELECT 1 FROM webhook_deliveries o WHERE o.receipt_id = webhook_deliveries.receipt_id
		AND o.destination_id = webhook_deliveries.destination_id AND o.key <> webhook_deliveries.key
		AND (o.retries = webhook_deliveries.retries OR webhook_deliveries.status = '` + after + `' AND o.retries > webhook_deliveries.retries))`)
	if bad > 0 {
		s.rt.Fatalf("%d deliveries are not part of a chain", bad)
	}
	// The last attempt of a chain is failing, if it failed.
	bad = s.count(`failing <> (failed AND NOT EXISTS (SELECT 1 FROM webhook_deliveries o WHERE o.receipt_id = webhook_deliveries.receipt_id
		AND o.destination_id = webhook_deliveries.destination_id AND o.retries > webhook_deliveries.retries))`)
	if bad > 0 {
		s.rt.Fatalf("%d deliveries are failing, or not, against what came after", bad)
	}
	for _, r := range s.replicas {
		if bytes, sockets := r.lanes.inUse(); s.calm && (bytes != 0 || sockets != 0) {
			s.rt.Fatalf("%d bytes and %d sockets were not released", bytes, sockets)
		}
	}
	f := *s.fixture
	f.t = s.tb()
	f.sumsHold(s.hook.orgID)
}

// rounds of as many histories as -rapid.checks says, which is 100.
var rounds = map[db.Dialect]int{db.SQLite: 3, db.Postgres: 1}

// TestSimulation draws random histories. A failing one is printed, and repeated with the flag that
// rapid prints.
func TestSimulation(t *testing.T) {
	for _, dialect := range dbtest.Dialects {
		for name, steps := range map[string][]string{"calm": calmSteps, "faulty": faultySteps} {
			t.Run(dialect.String()+"/"+name, func(t *testing.T) {
				h := newFixture(t, dbtest.Open(t, dialect))
				for range rounds[dialect] {
					rapid.Check(t, func(rt *rapid.T) {
						s := &simulation{
							fixture: h, rt: rt, sent: map[string]int{}, first: map[string][]string{}, calm: true, faults: true,
						}
						s.setUp()
						for range rapid.IntRange(10, 80).Draw(rt, "steps") {
							s.step(s.replicas[s.pick(len(s.replicas), "replica")], steps)
						}
						s.settle()
						s.check()
					})
				}
			})
		}
	}
}
