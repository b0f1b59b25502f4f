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
)

// fleet is a simulation of whole workers: turns, reading ahead, and what Accept hands over in memory. What their goroutines do, and when
// the worker looks around, are steps of a history, so that they come in any order. The database is a real one, the network is not.
type fleet struct {
	*house
	t     *rapid.T
	hook  Webhook
	to    []Destination
	procs []*proc
	made  int // processes that there ever were
	// sent and finished are by delivery, first are the receipts of first attempts by destination, in the order of their starts.
	sent, finished map[string]int
	first          map[string][]string
	// calm: no process has died or lost a turn, so that nothing may be sent twice. ordered: nor was anything else, so that the order holds.
	calm, ordered, clean bool
}

// proc is a process: its worker, the goroutines that would ask for the next delivery, those that are sending one, and results on their way.
type proc struct {
	*Worker
	idle    []flight
	sending []flight
	results []ended
	wishes  []*wish // what was read, and is not yet taken over
}

type flight struct {
	lane *lane
	task *task
}

// pick draws a number below n, each as likely as the others; rapid by itself prefers small ones.
func (f *fleet) pick(n int, what string) int { return int(rapid.Uint32().Draw(f.t, what)) % n }

// Send is the network: it fails as the history has it.
func (f *fleet) Send(_ context.Context, a Attempt) Outcome {
	if f.sent[a.Delivery.ID]++; f.sent[a.Delivery.ID] > 1 && f.calm {
		f.t.Fatalf("%s was sent twice, though nothing had happened", a.Delivery.ID)
	}
	if f.clean || f.pick(4, "fails") > 0 {
		return Outcome{Response: newAnswer(200, nil, "", 0)}
	}
	return Outcome{Error: "no", RetryAfter: time.Second, Gone: f.pick(20, "gone") == 0}
}

// begin adds a process, with nothing in memory.
func (f *fleet) begin() *proc {
	own := sameStore(f.store)
	f.made++
	own.Owner, own.Shard = fmt.Sprintf("rep_%d_%s", f.made, f.hook.orgID), int64(f.made%shards)
	own.Lanes = &Lanes{now: f.clock.now, wake: make(chan struct{}, 1), byID: map[string]*lane{}}
	p := &proc{Worker: &Worker{Store: own, Sender: f, Log: silent}}
	p.Worker.sending = f.house.t.Context()
	own.Lanes.start(func(n *lane) {
		own.Lanes.mu.Lock() // several goroutines are started at once
		defer own.Lanes.mu.Unlock()
		p.idle = append(p.idle, flight{lane: n})
	})
	return p
}

func (f *fleet) setUp() {
	must(f.t2(), f.db.Write(f.house.t.Context(), func(tx *db.Tx) error { // a history that failed has left something
		_, err := tx.Exec(`DELETE FROM webhook_queue`)
		return err
	}))
	caller := *alice
	caller.OrgID = id.New(id.Org)
	f.hook, _ = f.webhook(&caller)
	f.hook.orgID = caller.OrgID
	for i := range rapid.IntRange(1, 3).Draw(f.t, "destinations") {
		settings := fmt.Sprintf(`{"url": "http://sink%d.test", "max_retries": 2, "concurrency": %d}`, i, rapid.IntRange(1, 3).Draw(f.t, "slots"))
		f.to = append(f.to, f.destination(&caller, f.hook.ID, settings))
	}
	for range rapid.IntRange(1, 3).Draw(f.t, "processes") {
		f.procs = append(f.procs, f.begin())
	}
	f.ordered = len(f.procs) == 1
}

func (f *fleet) t2() testing.TB { return failer{f.house.t, f.t} }

// quiet and stormy are what may happen, each as often as it stands here.
var (
	quiet = []string{
		"accept", "accept", "accept", "roll back", "look", "look", "read", "read", "fill", "fill", "take", "take", "take", "take", "take",
		"send", "send", "send", "send", "write", "write", "wait", "wait", "retry",
	}
	stormy = append([]string{"untried", "lose turns", "crash", "disable"}, quiet...)
)

func (f *fleet) step(p *proc, of []string) {
	ctx := f.house.t.Context()
	switch of[f.pick(len(of), "step")] {
	case "accept":
		f.accept(p, nil)
	case "roll back":
		f.accept(p, errRolledBack)
	case "look":
		p.look(ctx)
	case "read":
		f.read(p)
	case "fill":
		p.takeOver()
	case "take":
		f.take(p)
	case "send":
		f.send(p)
	case "write":
		f.write(p)
	case "untried": // the database could not be read
		if len(p.sending) > 0 {
			f.ordered = false
			o := p.sending[0]
			p.lanes().untried(o.lane, o.task)
			p.sending = p.sending[1:]
			p.rest(o)
		}
	case "wait":
		f.clock.advance(time.Duration(rapid.IntRange(1, 2000).Draw(f.t, "ms")) * time.Millisecond)
		for _, each := range f.procs {
			each.look(ctx) // which keeps its turns
		}
	case "lose turns":
		f.calm, f.ordered = false, false
		f.clock.advance(turnFor + time.Second)
	case "crash":
		f.calm, f.ordered = false, false
		f.procs[slices.Index(f.procs, p)] = f.begin()
	case "retry":
		f.retry()
	case "disable":
		f.disable()
	}
}

func (f *fleet) accept(p *proc, fault error) {
	batch := make([]*arrival, rapid.IntRange(1, 4).Draw(f.t, "receipts"))
	for i := range batch {
		batch[i] = &arrival{receipt: &Receipt{
			WebhookID: f.hook.ID, Method: "POST", orgID: f.hook.orgID, headerText: "{}", body: []byte("x"), Size: 1,
		}}
	}
	err := f.db.Write(f.house.t.Context(), func(tx *db.Tx) error {
		if err := p.Store.acceptAll(tx, batch); err != nil {
			return err
		}
		return fault
	})
	if fault == nil {
		must(f.t2(), err)
		return
	}
	for _, a := range batch {
		p.lanes().settle(a.made, false)
	}
}

// read is the first half of Worker.fill; what is read may be old when it is taken over.
func (f *fleet) read(p *proc) {
	ctx := f.house.t.Context()
	for len(p.wishes) == 0 && p.takeTurns(ctx, p.lanes().turnless()) {
	}
	if len(p.wishes) > 0 {
		return
	}
	p.wishes = p.lanes().wishes()
	asks := make([]*ask, len(p.wishes))
	for i, w := range p.wishes {
		asks[i] = &w.ask
	}
	must(f.t2(), p.Store.Ready(ctx, asks))
}

func (p *proc) takeOver() {
	for _, w := range p.wishes {
		p.lanes().filled(w, p.Store.signer(w.destination))
	}
	p.wishes = nil
}

// take has a goroutine ask for its next delivery.
func (f *fleet) take(p *proc) {
	p.lanes().served.Wait()
	if len(p.idle) == 0 {
		return
	}
	i := f.pick(len(p.idle), "goroutine")
	n, sent := p.idle[i].lane, p.idle[i].task
	p.idle = slices.Delete(p.idle, i, i+1)
	t := p.lanes().take(n, sent)
	if t == nil {
		return
	}
	if n.turn <= stamp.Of(f.clock.now()) {
		f.t.Fatalf("%s is sent after the turn has ended", t.ID)
	}
	if slices.ContainsFunc(p.sending, func(o flight) bool { return o.task.ID == t.ID }) {
		f.t.Fatalf("%s is being sent by two goroutines", t.ID)
	}
	p.sending = append(p.sending, flight{n, t})
	if t.Retries == 0 {
		f.first[n.id] = append(f.first[n.id], t.ReceiptID)
	}
	f.bounded(n.id)
}

// bounded checks that no more is being sent to a destination at once than it allows, by all processes together.
func (f *fleet) bounded(destinationID string) {
	i := slices.IndexFunc(f.to, func(d Destination) bool { return d.ID == destinationID })
	n := 0
	for _, p := range f.procs {
		for _, o := range p.sending {
			if o.lane.id == destinationID {
				n++
			}
		}
	}
	if f.calm && n > f.to[i].Config.Concurrency {
		f.t.Fatalf("%d at once to a destination with %d slots", n, f.to[i].Config.Concurrency)
	}
}

// send ends what a goroutine is sending; its result waits to be written.
func (f *fleet) send(p *proc) {
	if len(p.sending) == 0 {
		return
	}
	i := f.pick(len(p.sending), "flight")
	o := p.sending[i]
	p.sending = slices.Delete(p.sending, i, i+1)
	to, key, err := p.target(o.lane)
	must(f.t2(), err)
	out, err := p.attempt(to, key, o.task)
	must(f.t2(), err)
	p.results = append(p.results, ended{task: o.task, Result: out})
	p.rest(o)
}

// rest has a goroutine wait for its next delivery, beside those that were just started.
func (p *proc) rest(o flight) {
	p.lanes().served.Wait()
	p.idle = append(p.idle, o)
}

func (f *fleet) write(p *proc) {
	var results []Result
	for _, e := range p.results {
		results = append(results, e.Result)
	}
	done, err := p.Store.Finish(f.house.t.Context(), results)
	must(f.t2(), err)
	p.lanes().finished(p.results)
	p.results = nil
	for _, r := range done {
		deliveryID := r.Delivery.ID
		if f.finished[deliveryID]++; f.finished[deliveryID] > 1 {
			f.t.Fatalf("%s was finished twice", deliveryID)
		}
	}
	f.changed() // a 410 disables
}

// changed tells all processes that a destination may be another.
func (f *fleet) changed() {
	for _, p := range f.procs {
		p.lanes().doubt()
	}
}

func (f *fleet) retry() {
	failed, err := f.store.Deliveries(f.house.t.Context(), f.hook.orgID, f.hook.ID, Filter{Status: Failed}, pageOf(1))
	must(f.t2(), err)
	if len(failed.Items) > 0 {
		p := f.procs[f.pick(len(f.procs), "asked")]
		_, _ = p.Store.Retry(as(alice), f.hook.orgID, f.hook.ID, failed.Items[0].ID) // a disabled destination refuses it
	}
}

func (f *fleet) disable() {
	to := f.to[f.pick(len(f.to), "destination")]
	must(f.t2(), f.db.Write(f.house.t.Context(), func(tx *db.Tx) error { return f.store.disableGone(tx, to.ID) }))
	f.changed()
}

// settle ends the faults and lets the processes work until nothing is pending: long enough for the turns of the dead to end, and too short
// for lanes to be forgotten, which would heal whatever is wrong with them.
func (f *fleet) settle() {
	f.clean = true
	ctx := f.house.t.Context()
	pending := func() int {
		left, err := f.store.Deliveries(ctx, f.hook.orgID, f.hook.ID, Filter{Status: Pending}, pageOf(1000))
		must(f.t2(), err)
		return len(left.Items)
	}
	for range 20 {
		for _, p := range f.procs {
			p.takeOver()
			p.look(ctx)
			p.fill(ctx)
			for p.lanes().served.Wait(); len(p.idle)+len(p.sending) > 0; p.lanes().served.Wait() {
				f.take(p)
				f.send(p)
			}
			f.write(p)
		}
		if pending() == 0 {
			return
		}
		f.clock.advance(2 * time.Second)
	}
	f.t.Fatalf("%d deliveries never end", pending())
}

// TestLaneSimulation draws histories of workers.
func TestLaneSimulation(t *testing.T) {
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			h := newHouse(t, dbtest.Open(t, dialect))
			for range (rounds[dialect] + 2) / 3 {
				rapid.Check(t, func(rt *rapid.T) { simulateFleet(rt, h) })
			}
		})
	}
}

func simulateFleet(t *rapid.T, h *house) {
	f := &fleet{house: h, t: t, sent: map[string]int{}, finished: map[string]int{}, first: map[string][]string{}, calm: true}
	f.setUp()
	of := quiet
	if rapid.Bool().Draw(t, "storm") {
		of = stormy
	}
	for range 20 + f.pick(100, "steps") {
		f.step(f.procs[f.pick(len(f.procs), "process")], of)
	}
	f.settle()
	f.promises()
}

// promises checks what must be true of every history.
func (f *fleet) promises() {
	var done int
	q := f.db.Read(f.house.t.Context())
	must(f.t2(), q.Row(`SELECT count(*) FROM webhook_deliveries WHERE `+ofOrg, f.hook.orgID).Scan(&done))
	if done != len(f.finished) {
		f.t.Fatalf("%d deliveries, %d were finished", done, len(f.finished))
	}
	for _, p := range f.procs {
		for _, n := range p.lanes().byID {
			if len(n.held)+len(n.coming)+len(n.queue) > 0 || n.bytes != 0 || p.lanes().bytes != 0 {
				f.t.Fatalf("a lane has %d in hand and %d on their way, of %d bytes", len(n.held), len(n.coming), n.bytes)
			}
		}
	}
	for destinationID, receipts := range f.first {
		if f.ordered && !slices.IsSorted(receipts) {
			f.t.Fatalf("%s got its receipts in the order %v", destinationID, receipts)
		}
	}
	h := *f.house
	h.t = f.t2()
	h.sumsHold(f.hook.orgID)
}
