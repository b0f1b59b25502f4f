package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/webhook"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/send"
	"steward/internal/webhook/webhooktest"
)

// simulation runs replicas step by step: accepting, discovering, leasing, the two halves of a read,
// sending and writing results are steps of a random history, with crashes and lost leases between
// any two of them. Time passes only when the history says so. The database is a real one, the
// network is not.
type simulation struct {
	*fixture
	rt       *rapid.T
	caller   *auth.Caller
	hook     webhook.Webhook
	to       []webhook.Destination
	replicas []*replica
	started  int // replicas that there ever were

	sent  map[string]int      // attempts by delivery
	first map[string][]string // receipts of first attempts by URL, in the order in which they began

	calm    bool // no replica has crashed or lost a lease: nothing is sent twice, and the order holds
	faults  bool // the network fails
	retried bool // a user asked for another attempt
}

// pick draws a number below n, each with the same probability; rapid prefers small ones.
func (s *simulation) pick(n int, what string) int { return int(rapid.Uint32().Draw(s.rt, what)) % n }

// newReplica adds a process. What it has in memory is lost by a crash.
func (s *simulation) newReplica() *replica {
	s.started++
	store := s.process(fmt.Sprintf("rep_%d_%s", s.started, s.caller.OrgID))
	_, scheduler := newScheduler(store, s)
	r := &replica{Replica: queue.NewReplica(s.fixture.t, scheduler), store: store}
	r.OnStart(func(t *queue.Task, leased bool) {
		if !leased {
			s.rt.Fatalf("%s is sent without a lease", t.DeliveryID())
		}
	})
	return r
}

// replica is a process.
type replica struct {
	*queue.Replica
	store *webhook.Store
}

// Send is the network.
func (s *simulation) Send(_ context.Context, r send.Request) send.Result {
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
	s.caller = &caller
	s.hook = s.webhook(s.caller)
	for i := range rapid.IntRange(1, 3).Draw(s.rt, "destinations") {
		s.to = append(s.to, s.destination(s.caller, s.hook.ID, fmt.Sprintf(`{"url": "http://sink%d.test", "max_retries": 2, "concurrency": %d}`,
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

var errRolledBack = errors.New("rolled back")

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
		r.Discover(ctx)
	case "lease":
		r.Expire()
		r.TakeLeases(ctx)
	case "read":
		must(s.tb(), r.BeginRead(ctx))
	case "load":
		s.load(r)
	case "fail read":
		if r.Reads() > 0 {
			r.FailRead(0)
		}
	case "send":
		if len(r.Running()) > 0 {
			r.EndAttempt()
		}
	case "write":
		r.Write()
	case "wait":
		s.clock.advance(time.Duration(rapid.IntRange(1, 2000).Draw(s.rt, "ms")) * time.Millisecond)
		for _, each := range s.replicas { // leases in use are renewed in time
			each.TakeLeases(ctx)
		}
	case "lose leases":
		s.calm = false
		s.clock.advance(queue.LeaseFor + time.Second)
	case "crash":
		s.calm = false
		s.replicas[slices.Index(s.replicas, r)] = s.newReplica()
	case "untried": // the results cannot be queued: the process stops
		s.calm = false
		if len(r.Running()) > 0 {
			r.CutOffAttempt()
		}
	case "retry":
		s.retryOne()
	case "disable":
		to := s.to[s.pick(len(s.to), "destination")]
		s.change(s.caller, to, fmt.Sprintf(`{"url": %q, "max_retries": 2, "concurrency": %d, "disabled": true}`,
			to.Config.URL, to.Config.Concurrency))
	}
	s.checkConcurrency()
}

func (s *simulation) acceptSome(r *replica, fault error) {
	bodies := bytesOf(numbered(rapid.IntRange(1, 4).Draw(s.rt, "receipts")))
	err := s.db.Write(s.fixture.t.Context(), func(tx *db.Tx) error {
		if err := r.store.AcceptEventsTx(tx, s.caller.OrgID, s.hook.ID, bodies); err != nil {
			return err
		}
		return fault
	})
	if fault == nil {
		must(s.tb(), err)
	}
}

// load is the second half of a read.
func (s *simulation) load(r *replica) {
	if r.Reads() > 0 {
		r.EndRead(s.fixture.t.Context(), s.pick(r.Reads(), "read"))
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
			sending += r.Sending(to.ID)
		}
		if sending > to.Config.Concurrency {
			s.rt.Fatalf("%d attempts at the same time, concurrency %d", sending, to.Config.Concurrency)
		}
	}
}

func (s *simulation) retryOne() {
	failed, err := s.store.Deliveries(s.fixture.t.Context(), s.caller.OrgID, s.hook.ID, webhook.Filter{Status: webhook.Failed}, page.Paging{Limit: 5})
	must(s.tb(), err)
	if len(failed.Items) > 0 {
		d := failed.Items[s.pick(len(failed.Items), "failed")]
		_, err := s.store.Retry(as(s.caller), s.caller.OrgID, s.hook.ID, d.ID) // a disabled destination refuses it
		s.retried = s.retried || err == nil
	}
}

// settle ends the faults and lets the replicas work until nothing is pending.
func (s *simulation) settle() {
	ctx := s.fixture.t.Context()
	s.faults = false
	for range 300 {
		for _, r := range s.replicas {
			for r.Expire(); r.Reads() > 0; {
				s.load(r)
			}
			r.Discover(ctx)
			r.TakeLeases(ctx)
			must(s.tb(), r.BeginRead(ctx))
			s.load(r)
			for len(r.Running()) > 0 {
				r.EndAttempt()
			}
			r.Write()
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
	heads, err := s.store.Queue.Heads(s.fixture.t.Context(), 0)
	must(s.tb(), err)
	return len(heads)
}

func (s *simulation) count(where string) (n int) {
	q := s.db.Read(s.fixture.t.Context())
	must(s.tb(), q.Row(`SELECT count(*) FROM webhook_deliveries WHERE `+webhooktest.OfOrg+` AND `+where, s.caller.OrgID).Scan(&n))
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
		if bytes, sockets := r.InUse(); s.calm && (bytes != 0 || sockets != 0) {
			s.rt.Fatalf("%d bytes and %d sockets were not released", bytes, sockets)
		}
	}
	f := *s.fixture
	f.t = s.tb()
	f.sumsHold(s.caller.OrgID)
}

// TestSimulation draws random histories, as many as -rapid.checks says: 100 unless set, and more in
// `make test-long`; on PostgreSQL a fifth of them. A failing one is printed, and repeated with the flag that rapid prints.
func TestSimulation(t *testing.T) {
	for _, dialect := range dbtest.Dialects {
		for name, steps := range map[string][]string{"calm": calmSteps, "faulty": faultySteps} {
			t.Run(dialect.String()+"/"+name, func(t *testing.T) {
				h := newFixture(t, dbtest.Open(t, dialect))
				dbtest.Check(t, dialect, func(rt *rapid.T) {
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
			})
		}
	}
}
