package webhook

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/id"
	"steward/internal/stamp"
)

// world is a simulation: some replicas that accept, claim, send and finish, and faults between any two of these steps. Time passes only
// when the simulation says so. The database is a real one.
type world struct {
	*house
	t        *rapid.T
	hook     Webhook
	to       []Destination
	workers  []*replica
	finished map[string]int // by delivery: how often some worker was told that it had finished it
	clean    bool           // no more faults
	retried  bool           // a user asked for one more attempt
}

// replica is a process: what it holds in memory, which a crash loses.
type replica struct {
	store   *Store
	claimed []*task
	results []Result
}

// simulate draws a history of faults and work, then lets the faults end, and checks the promises.
func simulate(t *rapid.T, h *house) {
	w := &world{house: h, t: t, finished: map[string]int{}}
	w.setUp()
	steps := rapid.IntRange(5, 40).Draw(t, "steps")
	for range steps {
		w.step(w.workers[rapid.IntRange(0, len(w.workers)-1).Draw(t, "worker")])
	}
	w.settle()
	w.promises()
}

func (w *world) setUp() {
	caller := *alice
	caller.OrgID = id.New(id.Org) // each history has an organization of its own
	w.hook, _ = w.webhook(&caller)
	w.hook.orgID = caller.OrgID
	for i := range rapid.IntRange(1, 3).Draw(w.t, "destinations") {
		retries := rapid.IntRange(0, 3).Draw(w.t, "max_retries")
		w.to = append(w.to, w.destination(&caller, w.hook.ID, fmt.Sprintf(`{"url": "http://sink%d.test", "max_retries": %d}`, i, retries)))
	}
	for i := range rapid.IntRange(1, 3).Draw(w.t, "workers") {
		own := sameStore(w.store)
		own.Owner, own.Shard, own.Lanes = fmt.Sprintf("rep_%d_%s", i, caller.OrgID), int64(i), nil
		w.workers = append(w.workers, &replica{store: own})
	}
}

var moves = []string{
	"accept", "claim", "send", "finish", "finish twice", "crash", "stall", "promote", "renew", "retry", "disable",
}

func (w *world) step(r *replica) {
	switch rapid.SampledFrom(moves).Draw(w.t, "step") {
	case "accept":
		w.acceptSome()
	case "claim":
		w.claim(r)
	case "send":
		w.sendSome(r)
	case "finish":
		w.finish(r, false)
	case "finish twice": // the first answer was lost
		w.finish(r, true)
	case "crash": // what was in memory is gone; sends may have happened
		r.claimed, r.results = nil, nil
	case "stall": // turns end while workers still hold their tasks
		w.clock.advance(time.Duration(rapid.IntRange(1, 40_000).Draw(w.t, "ms")) * time.Millisecond)
	case "promote":
		_, err := r.store.Promote(w.house.t.Context())
		must(w.t2(), err)
	case "renew":
		var destinationIDs []string
		for _, to := range w.to {
			destinationIDs = append(destinationIDs, to.ID)
		}
		_, _, err := r.store.TakeTurns(w.house.t.Context(), destinationIDs)
		must(w.t2(), err)
	case "retry":
		w.retrySome()
	case "disable":
		w.disableSome()
	}
}

// t2 is where helpers of the house report.
func (w *world) t2() testing.TB { return failer{w.house.t, w.t} }

// failer lets helpers that take a testing.TB fail the history, so that rapid prints and shrinks it.
type failer struct {
	testing.TB
	t *rapid.T
}

func (f failer) Fatal(args ...any)                 { f.t.Fatal(args...) }
func (f failer) Fatalf(format string, args ...any) { f.t.Fatalf(format, args...) }

func (w *world) acceptSome() {
	caller := *alice
	caller.OrgID = w.hook.orgID
	var bodies []string
	for range rapid.IntRange(1, 4).Draw(w.t, "receipts") {
		bodies = append(bodies, "x")
	}
	w.accept(w.hook, &caller, bodies...)
}

func (w *world) claim(r *replica) {
	to := w.to[rapid.IntRange(0, len(w.to)-1).Draw(w.t, "destination")]
	r.claim(w.t2(), to.ID, rapid.IntRange(1, 5).Draw(w.t, "want"))
}

// claim reads deliveries beside those that the replica has in hand.
func (r *replica) claim(t testing.TB, destinationID string, want int) {
	held := map[string]*task{}
	for _, t := range r.claimed {
		held[t.ID] = t
	}
	for _, result := range r.results {
		held[result.Delivery.ID] = &task{Delivery: *result.Delivery}
	}
	taken, _ := r.store.claim(t, destinationID, held, want)
	r.claimed = append(r.claimed, taken...)
}

func (w *world) sendSome(r *replica) {
	for _, t := range r.claimed {
		out := Result{Delivery: &t.Delivery, At: stamp.Of(w.clock.now())}
		i := slices.IndexFunc(w.to, func(d Destination) bool { return d.ID == t.DestinationID })
		out.MaxRetries = w.to[i].Config.MaxRetries
		if !w.clean && rapid.Bool().Draw(w.t, "fails") {
			out.Error = "it did not work"
			out.Gone = rapid.IntRange(0, 9).Draw(w.t, "gone") == 0
		}
		r.results = append(r.results, out)
	}
	r.claimed = nil
}

func (w *world) finish(r *replica, twice bool) {
	for range map[bool]int{false: 1, true: 2}[twice] {
		done, err := r.store.Finish(w.house.t.Context(), r.results)
		must(w.t2(), err)
		for _, counted := range done {
			w.finished[counted.Delivery.ID]++
		}
	}
	r.results = nil
}

func (w *world) retrySome() {
	failed, err := w.store.Deliveries(w.house.t.Context(), w.hook.orgID, w.hook.ID, Filter{Status: Failed}, pageOf(5))
	must(w.t2(), err)
	if len(failed.Items) > 0 {
		d := failed.Items[rapid.IntRange(0, len(failed.Items)-1).Draw(w.t, "failed")]
		_, err := w.store.Retry(as(alice), w.hook.orgID, w.hook.ID, d.ID) // a disabled destination refuses it
		w.retried = w.retried || err == nil
	}
}

func (w *world) disableSome() {
	to := w.to[rapid.IntRange(0, len(w.to)-1).Draw(w.t, "destination")]
	must(w.t2(), w.db.Write(w.house.t.Context(), func(tx *db.Tx) error { return w.store.disableGone(tx, to.ID) }))
}

// settle ends the faults and lets the workers go on until nothing is pending.
func (w *world) settle() {
	w.clean = true
	for range 60 {
		w.clock.advance(15 * time.Hour)
		for _, r := range w.workers {
			_, err := r.store.Promote(w.house.t.Context())
			must(w.t2(), err)
			for _, to := range w.to {
				r.claim(w.t2(), to.ID, 1000)
			}
			w.sendSome(r)
			w.finish(r, false)
		}
		if left := w.count(`status = 'pending'`); left == 0 {
			return
		}
	}
	w.t.Fatalf("%d deliveries never end", w.count(`status = 'pending'`))
}

func (w *world) count(where string) (n int) {
	q := w.db.Read(w.house.t.Context())
	must(w.t2(), q.Row(`SELECT count(*) FROM webhook_deliveries WHERE `+ofOrg+` AND `+where, w.hook.orgID).Scan(&n))
	return n
}

// promises checks what must be true of every history.
func (w *world) promises() {
	for deliveryID, n := range w.finished {
		if n != 1 {
			w.t.Fatalf("delivery %s was finished %d times", deliveryID, n)
		}
	}
	if rows := w.count(`status <> 'pending'`); rows != len(w.finished) {
		w.t.Fatalf("%d deliveries are done, workers were told of %d", rows, len(w.finished))
	}
	// A chain has each attempt once, from 0 up, and nothing after a success unless a user asked for it.
	after := "success"
	if w.retried {
		after = "no such status"
	}
	bad := w.count(`EXISTS (SELECT 1 FROM webhook_deliveries o WHERE o.receipt_id = webhook_deliveries.receipt_id AND o.destination_id = webhook_deliveries.destination_id
		AND o.key <> webhook_deliveries.key
		AND (o.retries = webhook_deliveries.retries OR webhook_deliveries.status = '` + after + `' AND o.retries > webhook_deliveries.retries))`)
	if bad > 0 {
		w.t.Fatalf("%d deliveries do not fit into a chain", bad)
	}
	h := *w.house
	h.t = w.t2()
	h.sumsHold(w.hook.orgID)
}

// rounds of as many histories as -rapid.checks says, which are 100: over a thousand in every run of the tests.
var rounds = map[db.Dialect]int{db.SQLite: 10, db.Postgres: 1}

// TestSimulation draws histories; a failing one is printed, and repeated by the flag that rapid names.
func TestSimulation(t *testing.T) {
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			h := newHouse(t, dbtest.Open(t, dialect))
			h.store.Lanes = nil
			for range rounds[dialect] {
				rapid.Check(t, func(rt *rapid.T) { simulate(rt, h) })
			}
		})
	}
}
