package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/waittest"
	"steward/internal/webhook/send"
)

// network stands in for destinations: it records what is sent, and responds as the test says.
type network struct {
	mu      sync.Mutex
	sent    map[string][]string // bodies by URL, in the order in which the attempts began
	respond func(ctx context.Context, r send.Request) send.Result
}

func (n *network) Send(ctx context.Context, r send.Request) send.Result {
	n.mu.Lock()
	if n.sent == nil {
		n.sent = map[string][]string{}
	}
	n.sent[r.URL] = append(n.sent[r.URL], string(r.Body))
	n.mu.Unlock()
	if n.respond == nil {
		return ok()
	}
	return n.respond(ctx, r)
}

func ok() send.Result { return send.Result{Response: &send.Response{Status: 200}} }

func (n *network) bodies(url string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.sent[url])
}

// waitFor waits until so many deliveries to a URL have begun.
func (n *network) waitFor(t testing.TB, url string, want int) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("%d deliveries to %s", want, url), func() (int, bool) {
		sent := len(n.bodies(url))
		return sent, sent >= want
	})
}

func numbered(n int) (bodies []string) {
	for i := range n {
		bodies = append(bodies, fmt.Sprintf("%05d", i))
	}
	return bodies
}

// TestDeliveriesStartInOrder sends more than memory may hold to a destination with concurrency 1.
func TestDeliveriesStartInOrder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		n := &network{}
		h.scheduler.Send = n.Send
		h.run()
		w, _ := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "http://sink.test", "concurrency": 1}`)
		want := numbered(3*readAhead + 7)
		for batch := range slices.Chunk(want, 50) {
			h.accept(w, alice, batch...)
		}
		n.waitFor(t, "http://sink.test", len(want))
		if got := n.bodies("http://sink.test"); !slices.Equal(got, want) {
			t.Errorf("%d arrived, not in order", len(got))
		}
		h.waitFor(alice, w, Filter{Status: Pending}, 0)
		h.sumsHold("org_a")
	})
}

// TestSlowDestinationDelaysNoOther has one destination hang and one fail, each with a backlog; a
// third one gets everything.
func TestSlowDestinationDelaysNoOther(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		release := make(chan struct{})
		n := &network{respond: func(ctx context.Context, r send.Request) send.Result {
			switch r.URL {
			case "http://hangs.test":
				<-release
			case "http://fails.test":
				return send.Result{Error: "no"}
			}
			return ok()
		}}
		h.scheduler.Send = n.Send
		h.run()
		w, _ := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "http://hangs.test", "concurrency": 3}`)
		h.destination(alice, w.ID, `{"url": "http://fails.test"}`)
		h.destination(alice, w.ID, `{"url": "http://healthy.test"}`)
		want := numbered(readAhead + 100)
		for batch := range slices.Chunk(want, 64) {
			h.accept(w, alice, batch...)
		}
		n.waitFor(t, "http://healthy.test", len(want))
		if sent := len(n.bodies("http://hangs.test")); sent != 3 {
			t.Errorf("%d deliveries at the same time, want 3", sent)
		}
		close(release)
		n.waitFor(t, "http://hangs.test", len(want))
		h.waitFor(alice, w, Filter{Status: Success}, 2*len(want))
		h.sumsHold("org_a")
	})
}

// TestUnreadableDestinationDelaysNoOther has a destination whose settings cannot be decrypted, and
// a malformed row in the queue.
func TestUnreadableDestinationDelaysNoOther(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		n := &network{}
		h.scheduler.Send = n.Send
		w, _ := h.webhook(alice)
		bad := h.destination(alice, w.ID, `{"url": "http://bad.test"}`)
		good := h.destination(alice, w.ID, `{"url": "http://good.test"}`)
		other, err := seal.NewRing([]byte("ffffffffffffffffffffffffffffffff"))
		must(t, err)
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			if _, err := tx.Exec(`UPDATE webhook_destinations SET config = $2 WHERE id = $1`, bad.ID,
				other.Seal(configPurpose, []byte(`{}`))); err != nil {
				return err
			}
			_, err := tx.Exec(`INSERT INTO webhook_queue (key, org_id, destination_id, receipt_key, date, retries, due_at, size)
				VALUES ('malformed', 'org_a', $1, 'malformed', 0, 0, 0, 0)`, good.ID)
			return err
		}))
		h.accept(w, alice, numbered(20)...)
		h.run()
		h.waitFor(alice, w, Filter{Status: Success}, 20)
		h.waitFor(alice, w, Filter{Status: Failed}, 20)
		for _, f := range h.deliveries(alice, w.ID, Filter{Status: Failed}) {
			if f.DestinationID != bad.ID || *f.Error != "the destination's settings cannot be read" {
				t.Fatalf("failed: %+v", f)
			}
		}
		if waiting := len(h.deliveries(alice, w.ID, Filter{Status: Pending, DestinationID: bad.ID})); waiting != 20 {
			t.Errorf("%d retries, want 20", waiting)
		}
	})
}

// TestLeaseKeepsOthersAway has a process die with deliveries in memory: another one sends them once
// the lease has expired, and not before.
func TestLeaseKeepsOthersAway(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
		h.accept(w, alice, numbered(5)...)
		dead := sameStore(h.store, "rep_dead")
		lost, held := dead.claim(t, to.ID, 3)
		if !held || len(lost) != 3 {
			t.Fatalf("claimed %d", len(lost))
		}
		if _, held := h.store.claim(t, to.ID, 9); held {
			t.Error("a lease of another process was taken")
		}
		heads, err := h.store.Heads(t.Context())
		must(t, err)
		if len(heads) != 1 || !heads[0].leased {
			t.Errorf("heads %+v", heads)
		}
		h.clock.advance(leaseFor)
		heads, err = h.store.Heads(t.Context())
		must(t, err)
		if len(heads) != 1 || heads[0].leased || heads[0].key != lost[0].key {
			t.Errorf("heads %+v", heads)
		}
		taken, held := h.store.claim(t, to.ID, 9)
		if !held || len(taken) != 5 {
			t.Errorf("claimed %d", len(taken))
		}
		late, err := dead.Finish(t.Context(), []Result{{Delivery: lost[0], At: lost[0].Date}})
		must(t, err)
		if len(late) != 0 {
			t.Error("a process without the lease finished a delivery")
		}
	})
}

// TestLeaseIsRenewed has a delivery that takes longer than a lease: no other process sends it as well.
func TestLeaseIsRenewed(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		started, release := make(chan struct{}), make(chan struct{})
		n := &network{respond: func(context.Context, send.Request) send.Result {
			close(started)
			<-release
			return ok()
		}}
		h.scheduler.Send = n.Send
		h.run()
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://slow.test"}`)
		h.accept(w, alice, "x")
		waittest.Receive(t, "the attempt", chanOf(started))
		other := sameStore(h.store, "rep_2")
		for range 3 {
			h.clock.advance(leaseFor - renewBefore + time.Second)
			want := stamp.Of(h.clock.now().Add(leaseFor))
			eventually(t, "the lease is renewed", func() bool { return h.leaseUntil(to.ID) == want })
			if _, held := other.claim(t, to.ID, 1); held {
				t.Error("another process has the lease")
			}
		}
		close(release)
		h.waitFor(alice, w, Filter{Status: Success}, 1)
	})
}

// chanOf returns a channel that receives when another one is closed.
func chanOf(closed <-chan struct{}) <-chan bool {
	out := make(chan bool, 1)
	go func() {
		<-closed
		out <- true
	}()
	return out
}

func (h *fixture) leaseUntil(destinationID string) (until stamp.Time) {
	h.t.Helper()
	must(h.t, h.db.Read(h.t.Context()).Row(`SELECT expires_at FROM webhook_leases WHERE destination_id = $1`, destinationID).Scan(&until))
	return until
}

// TestExclusiveProcessDropsLeases: a process that is alone does not wait for the leases of the one
// before it, which died.
func TestExclusiveProcessDropsLeases(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	w, _ := h.webhook(alice)
	to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
	h.accept(w, alice, "x")
	if _, held := sameStore(h.store, "rep_dead").claim(t, to.ID, 1); !held {
		t.Fatal("the lease was not taken")
	}
	n := &network{}
	h.scheduler.Send = n.Send
	h.scheduler.Exclusive = true
	h.run() // and the clock stands still
	h.waitFor(alice, w, Filter{Status: Success}, 1)
}

// TestReplicasDeliverEverythingOnce runs two schedulers on one database, with a network that fails.
func TestReplicasDeliverEverythingOnce(t *testing.T) {
	options := dbtest.Options(t, db.Postgres)
	open := func() *db.DB {
		d, err := db.Open(t.Context(), options)
		must(t, err)
		t.Cleanup(func() { must(t, d.Close()) })
		ctx, stop := context.WithCancel(context.Background())
		var watching sync.WaitGroup
		watching.Go(func() { d.RunWatch(ctx) })
		t.Cleanup(func() { stop(); watching.Wait() })
		return d
	}
	h := newFixture(t, open())
	other := newFixture(t, open())
	other.clock = h.clock
	other.store.Now = h.clock.now
	other.store.Owner = "rep_2"
	var sent atomic.Int64
	n := &network{respond: func(context.Context, send.Request) send.Result {
		if sent.Add(1)%3 == 0 {
			return send.Result{Error: "no", RetryAfter: time.Second}
		}
		return ok()
	}}
	for _, one := range []*fixture{h, other} {
		one.scheduler = newScheduler(one.store, n.Send)
		one.run()
	}
	var hooks []Webhook
	for range 4 {
		w, _ := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "http://sink.test", "max_retries": 20}`)
		hooks = append(hooks, w)
	}
	for i := range 40 {
		[]*fixture{h, other}[i%2].accept(hooks[i%4], alice, numbered(20)...)
	}
	waittest.Until(t, "800 successes", func() (int, bool) {
		h.advanceToNextDue()
		succeeded := 0
		for _, w := range hooks {
			succeeded += len(h.deliveries(alice, w.ID, Filter{Status: Success}))
		}
		return succeeded, succeeded == 800
	})
	h.sumsHold("org_a")
}

// advanceToNextDue moves the clock to the time of the next retry, if nothing is due now.
func (h *fixture) advanceToNextDue() {
	h.t.Helper()
	var next *stamp.Time
	must(h.t, h.db.Read(h.t.Context()).Row(`SELECT MIN(due_at) FROM webhook_queue`).Scan(&next))
	if next == nil {
		return
	}
	if wait := next.Std().Sub(h.clock.now()); wait > 0 {
		h.clock.advance(wait)
	}
}

// TestReplicasKeepOrder sends through two replicas in turn: whoever holds the lease sends in the
// order of the receipts.
func TestReplicasKeepOrder(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	h := newFixture(t, d)
	other := sameStore(h.store, "rep_2")
	n := &network{}
	h.scheduler.Send = n.Send
	second := newScheduler(other, n.Send)
	h.run()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { second.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	w, _ := h.webhook(alice)
	h.destination(alice, w.ID, `{"url": "http://sink.test", "concurrency": 1}`)
	want := numbered(200)
	for i, body := range want {
		store := []*Store{h.store, other}[i%2]
		must(t, store.acceptNow([]*arrival{{receipt: textReceipt(w, alice, body)}}))
		h.clock.advance(time.Millisecond)
	}
	n.waitFor(t, "http://sink.test", len(want))
	if got := n.bodies("http://sink.test"); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestUnstorableResponseEndsAlone has a response that PostgreSQL cannot store among others: its
// delivery ends without it.
func TestUnstorableResponseEndsAlone(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.Postgres))
	w, _ := h.webhook(alice)
	to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
	h.accept(w, alice, numbered(20)...)
	rows, _ := h.store.claim(t, to.ID, 20)
	var batch []ended
	for i, d := range rows {
		e := ended{task: &task{Delivery: d, lane: h.scheduler.lanes.lane(to.ID)}, result: Result{Delivery: d, At: d.Date, Response: `{}`}}
		if i == 7 {
			e.result.Response = "\x00"
		}
		batch = append(batch, e)
	}
	h.scheduler.finish(batch)
	without := 0
	for _, d := range h.deliveries(alice, w.ID, Filter{Status: Success}) {
		if d.Response == nil {
			without++
		}
	}
	if without != 1 {
		t.Errorf("%d deliveries are without a response", without)
	}
	h.sumsHold("org_a")
}

// TestCutOffAttemptIsNotRecorded stops the process while an attempt goes on: that is not the
// destination's failure.
func TestCutOffAttemptIsNotRecorded(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	w, _ := h.webhook(alice)
	to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
	h.accept(w, alice, "x")
	rows, _ := h.store.claim(t, to.ID, 1)
	var cut context.CancelFunc
	h.scheduler.cut, cut = context.WithCancel(t.Context())
	h.scheduler.Send = func(context.Context, send.Request) send.Result {
		cut()
		return send.Result{Error: "cut off"}
	}
	attempt := &task{Delivery: rows[0], receipt: textReceipt(w, alice, "x")}
	if result, err := h.scheduler.attempt(attempt); err == nil {
		t.Errorf("it ended with %+v", result)
	}
}

// TestPendingDeliveriesEndWithTheirDestination disables and deletes destinations with a backlog.
func TestPendingDeliveriesEndWithTheirDestination(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		release := make(chan struct{})
		n := &network{respond: func(context.Context, send.Request) send.Result { <-release; return ok() }}
		h.scheduler.Send = n.Send
		h.run()
		w, _ := h.webhook(alice)
		gone := h.destination(alice, w.ID, `{"url": "http://gone.test", "concurrency": 1}`)
		off := h.destination(alice, w.ID, `{"url": "http://off.test", "concurrency": 1}`)
		for batch := range slices.Chunk(numbered(readAhead+50), 50) {
			h.accept(w, alice, batch...)
		}
		must(t, h.store.DeleteDestination(as(alice), "org_a", w.ID, gone.ID, page.IfMatch{}))
		c := config(t, `{"url": "http://off.test", "disabled": true}`)
		_, err := h.store.UpdateDestination(as(alice), "org_a", w.ID, off.ID, &c, page.IfMatch{})
		must(t, err)
		close(release)
		h.waitFor(alice, w, Filter{Status: Pending}, 0)
		reasons := map[string]int{}
		for _, d := range h.deliveries(alice, w.ID, Filter{Status: Failed}) {
			reasons[*d.Error]++
		}
		if len(reasons) != 2 || reasons["the destination was deleted"] < readAhead || reasons["the destination is disabled"] < readAhead {
			t.Errorf("reasons %v", reasons)
		}
		h.accept(w, alice, "after")
		if waiting := len(h.deliveries(alice, w.ID, Filter{Status: Pending})); waiting != 0 {
			t.Errorf("%d deliveries to disabled destinations", waiting)
		}
		h.sumsHold("org_a")
	})
}

// TestStopFinishesWhatIsBeingSent stops a scheduler with a backlog: the rest is free for others at
// once.
func TestStopFinishesWhatIsBeingSent(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		started, release := make(chan struct{}, 100), make(chan struct{})
		n := &network{respond: func(context.Context, send.Request) send.Result {
			started <- struct{}{}
			<-release
			return ok()
		}}
		h.scheduler.Send = n.Send
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://sink.test", "concurrency": 2}`)
		h.accept(w, alice, numbered(20)...)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); h.scheduler.Run(ctx) }()
		waittest.Receive(t, "the first attempt", started)
		waittest.Receive(t, "the second attempt", started)
		stop()
		eventually(t, "the lanes are closed", h.scheduler.lanes.isClosed)
		close(release)
		waittest.Receive(t, "the end", chanOf(done))
		if ended := len(h.deliveries(alice, w.ID, Filter{Status: Success})); ended != 2 {
			t.Errorf("%d have ended", ended)
		}
		if taken, held := sameStore(h.store, "rep_2").claim(t, to.ID, 100); !held || len(taken) != 18 {
			t.Errorf("another process can claim %d", len(taken))
		}
	})
}

func (l *lanes) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// TestResultsWaitForTheDatabase: results that cannot be written are kept until they can be; nothing
// is sent again meanwhile.
func TestResultsWaitForTheDatabase(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	logged := make(firstLine, 1)
	h.scheduler.Log = slog.New(slog.NewTextHandler(logged, nil))
	h.run()
	s := newSink(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 16<<10)) })
	w, _ := h.webhook(alice)
	to := h.destination(alice, w.ID, `{"url": "`+s.URL+`"}`)
	h.accept(w, alice, "first") // which takes the lease
	h.waitFor(alice, w, Filter{Status: Success}, 1)
	must(t, h.db.Write(t.Context(), func(tx *db.Tx) error {
		var batch []*arrival
		for range 20 {
			batch = append(batch, &arrival{receipt: textReceipt(w, alice, "x")})
		}
		if err := h.store.acceptBatch(tx, batch); err != nil {
			return err
		}
		_, err := tx.Exec(`PRAGMA max_page_count = 1`) // as many as there are
		return err
	}))
	if line := waittest.Receive(t, "a line in the log", logged); !strings.Contains(line, "write results") {
		t.Errorf("the log says %s", line)
	}
	waittest.Until(t, "21 requests", func() (int, bool) { n := len(s.got()); return n, n == 21 })
	h.clock.advance(leaseFor - renewBefore + time.Second)
	want := stamp.Of(h.clock.now().Add(leaseFor))
	eventually(t, "the lease is renewed", func() bool { return h.leaseUntil(to.ID) >= want })
	must(t, h.db.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`PRAGMA max_page_count = 1000000`)
		return err
	}))
	h.waitFor(alice, w, Filter{Status: Success}, 21)
	for _, d := range h.deliveries(alice, w.ID, Filter{}) {
		if d.Response == nil {
			t.Errorf("%s has no response", d.ID)
		}
	}
	if n := len(s.got()); n != 21 {
		t.Errorf("%d requests", n)
	}
}

// firstLine is a log whose first line can be received.
type firstLine chan string

func (l firstLine) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default:
	}
	return len(line), nil
}

// TestMemoryIsBounded has destinations hang with large bodies waiting: what is in memory stays
// within the share of each, and everything arrives at last.
func TestMemoryIsBounded(t *testing.T) {
	const count, size = 40, 512 << 10
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		release := make(chan struct{})
		n := &network{respond: func(context.Context, send.Request) send.Result { <-release; return ok() }}
		h.scheduler.Send = n.Send
		h.run()
		var hooks []Webhook
		for i := range 3 {
			w, _ := h.webhook(alice)
			h.destination(alice, w.ID, fmt.Sprintf(`{"url": "http://sink%d.test", "concurrency": 100}`, i))
			hooks = append(hooks, w)
		}
		for range count {
			for _, w := range hooks {
				h.accept(w, alice, strings.Repeat("x", size))
			}
		}
		perLane := int64(maxBytes / shares)
		for i := range hooks {
			// A lane is read again once half of its share is free. How much of it is in use while all
			// requests hang depends on how many rows there were when it was read.
			n.waitFor(t, fmt.Sprintf("http://sink%d.test", i), int(perLane/2/size))
		}
		if stats := h.scheduler.Stats(); stats.Bytes > 3*perLane || stats.Bytes < 3*perLane/2 {
			t.Errorf("%d bytes are in memory", stats.Bytes)
		}
		close(release)
		for _, w := range hooks {
			h.waitFor(alice, w, Filter{Status: Success}, count)
		}
		eventually(t, "nothing is in memory", func() bool { return h.scheduler.Stats() == Stats{} })
		h.sumsHold("org_a")
	})
}
