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
	"steward/internal/stamp"
)

// faultySender is a network that fails as it is told, without a network.
type faultySender struct {
	mu   sync.Mutex
	sent map[string][]string // bodies by destination, in the order of their starts
	send func(ctx context.Context, a Attempt) Outcome
}

func (s *faultySender) Send(ctx context.Context, a Attempt) Outcome {
	s.mu.Lock()
	if s.sent == nil {
		s.sent = map[string][]string{}
	}
	s.sent[a.Destination.ID] = append(s.sent[a.Destination.ID], string(a.Receipt.body))
	s.mu.Unlock()
	if s.send == nil {
		return Outcome{Response: newAnswer(200, nil, "", 0)}
	}
	return s.send(ctx, a)
}

func (s *faultySender) bodies(destinationID string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent[destinationID])
}

func numbered(n int) (bodies []string) {
	for i := range n {
		bodies = append(bodies, fmt.Sprintf("%05d", i))
	}
	return bodies
}

// TestOrder sends more than memory may hold to a destination with one slot: they arrive in the order of their receipts.
func TestOrder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newHouse(t, d)
		s := &faultySender{}
		h.worker.Sender = s
		h.run()
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://sink.test", "concurrency": 1}`)
		want := numbered(3*laneQueue + 7)
		for batch := range slices.Chunk(want, 50) {
			h.accept(w, alice, batch...)
		}
		eventually(t, "all are sent", func() bool { return len(s.bodies(to.ID)) >= len(want) })
		if got := s.bodies(to.ID); !slices.Equal(got, want) {
			t.Errorf("%d arrived, not in order", len(got))
		}
		eventually(t, "all are finished", func() bool { return len(h.deliveries(alice, w.ID, Filter{Status: Pending})) == 0 })
		h.sumsHold("org_a")
	})
}

// TestIsolationOfDestinations has one destination hang and one fail, each with a backlog; a third one gets everything meanwhile.
func TestIsolationOfDestinations(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newHouse(t, d)
		release := make(chan struct{})
		s := &faultySender{send: func(ctx context.Context, a Attempt) Outcome {
			switch a.Destination.Config.URL {
			case "http://hangs.test":
				<-release
			case "http://fails.test":
				return Outcome{Error: "no"}
			}
			return Outcome{Response: newAnswer(200, nil, "", 0)}
		}}
		h.worker.Sender = s
		h.run()
		w, _ := h.webhook(alice)
		hangs := h.destination(alice, w.ID, `{"url": "http://hangs.test", "concurrency": 3}`)
		h.destination(alice, w.ID, `{"url": "http://fails.test"}`)
		fine := h.destination(alice, w.ID, `{"url": "http://fine.test"}`)
		want := numbered(laneQueue + 100)
		for batch := range slices.Chunk(want, 64) {
			h.accept(w, alice, batch...)
		}
		eventually(t, "the healthy one has everything", func() bool { return len(s.bodies(fine.ID)) == len(want) })
		if n := len(s.bodies(hangs.ID)); n != 3 {
			t.Errorf("the hanging one has %d at the same time, not its 3", n)
		}
		close(release)
		eventually(t, "the hanging one has everything", func() bool { return len(s.bodies(hangs.ID)) == len(want) })
		eventually(t, "nothing is pending but retries", func() bool {
			return len(h.deliveries(alice, w.ID, Filter{Status: Success})) == 2*len(want)
		})
		h.sumsHold("org_a")
	})
}

// TestTurnEnds has a process that dies with deliveries in hand; another one sends them once its turn has ended, and not before.
func TestTurnEnds(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newHouse(t, d)
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
		h.accept(w, alice, numbered(5)...)
		dead := sameStore(h.store)
		dead.Owner = "rep_dead"
		lost, mine := dead.claim(t, to.ID, nil, 3)
		if !mine || len(lost) != 3 {
			t.Fatalf("claimed %d", len(lost))
		}
		if _, mine := h.store.claim(t, to.ID, nil, 9); mine {
			t.Errorf("another process's turn was taken")
		}
		if ready, err := h.store.Oldest(t.Context()); err != nil || len(ready) != 0 {
			t.Errorf("ready %v, %v", ready, err)
		}
		h.clock.advance(turnFor)
		if ready, err := h.store.Oldest(t.Context()); err != nil || len(ready) != 1 || ready[0].deliveryID != lost[0].ID {
			t.Errorf("ready %v, %v", ready, err)
		}
		taken, mine := h.store.claim(t, to.ID, nil, 9)
		if !mine || len(taken) != 5 {
			t.Errorf("claimed %d", len(taken))
		}
		late, err := dead.Finish(t.Context(), []Result{{Delivery: &lost[0].Delivery, At: lost[0].Date}})
		must(t, err)
		if len(late) != 0 {
			t.Error("a process whose turn ended finished a delivery")
		}
	})
}

// TestReadyFromAPlace reads on from where the last reading ended, in the order of times and ids.
func TestReadyFromAPlace(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newHouse(t, d)
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
		for i := range 5 {
			h.accept(w, alice, numbered(10)[2*i:2*i+2]...) // two of each time
			h.clock.advance(time.Millisecond)
		}
		a, got := &ask{destinationID: to.ID, bytes: laneBytes}, ""
		for _, a.limit = range []int{3, 1, 5, 9} {
			must(t, h.store.Ready(t.Context(), []*ask{a}))
			for _, t := range a.tasks {
				a.from = t.place()
				got += string(t.receipt.body[4:])
			}
			got += fmt.Sprint(a.more)
		}
		if got != "012true3true45678true9false" {
			t.Errorf("read %s", got)
		}
	})
}

// TestReplicas run two workers on one database, with faults of the network: everything ends once.
func TestReplicas(t *testing.T) {
	url := dbtest.Options(t, db.Postgres)
	open := func() *db.DB {
		d, err := db.Open(t.Context(), url)
		must(t, err)
		t.Cleanup(func() { d.Close() })
		return d
	}
	h := newHouse(t, open())
	var sent atomic.Int64
	s := &faultySender{send: func(context.Context, Attempt) Outcome {
		if sent.Add(1)%3 == 0 {
			return Outcome{Error: "no", RetryAfter: time.Second}
		}
		return Outcome{Response: newAnswer(200, nil, "", 0)}
	}}
	other := newHouse(t, open())
	other.clock = h.clock
	other.store.Now, other.store.Owner, other.store.Shard = h.clock.now, "rep_2", 1
	other.store.Lanes.now = h.clock.now
	for _, one := range []*house{h, other} {
		one.worker.Sender = s
		one.run()
	}
	var hooks []Webhook
	for range 4 {
		w, _ := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "http://sink.test", "max_retries": 20}`)
		hooks = append(hooks, w)
	}
	for i := range 40 {
		[]*house{h, other}[i%2].accept(hooks[i%4], alice, numbered(20)...)
	}
	eventually(t, "all are delivered", func() bool {
		h.clock.advance(10 * time.Millisecond)
		n := 0
		for _, w := range hooks {
			n += len(h.deliveries(alice, w.ID, Filter{Status: Success}))
		}
		return n == 800
	})
	h.sumsHold("org_a")
}

// TestBadResult has an answer that PostgreSQL cannot store among others: it spoils none of them, and its delivery ends without it.
func TestBadResult(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	h := newHouse(t, d)
	bad := Answer("\x00")
	h.worker.Sender = &faultySender{send: func(_ context.Context, a Attempt) Outcome {
		if string(a.Body) == "00007" {
			return Outcome{Response: &bad}
		}
		return Outcome{Response: newAnswer(200, nil, "", 0)}
	}}
	w, _ := h.webhook(alice)
	h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
	h.accept(w, alice, numbered(20)...)
	h.run()
	eventually(t, "all are delivered", func() bool { return len(h.deliveries(alice, w.ID, Filter{Status: Success})) == 20 })
	without := 0
	for _, d := range h.deliveries(alice, w.ID, Filter{}) {
		if d.Response == nil {
			without++
		}
	}
	if without != 1 {
		t.Errorf("%d deliveries are without their answer", without)
	}
	h.sumsHold("org_a")
}

// TestCutOff ends the process's patience while a delivery is being sent: that is no failure of its destination, and not written down.
func TestCutOff(t *testing.T) {
	h := newHouse(t, dbtest.Open(t, db.SQLite))
	w, _ := h.webhook(alice)
	to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
	h.accept(w, alice, "x")
	tasks, _ := h.store.claim(t, to.ID, nil, 1)
	var cut context.CancelFunc
	h.worker.sending, cut = context.WithCancel(t.Context())
	h.worker.Sender = &faultySender{send: func(context.Context, Attempt) Outcome { cut(); return Outcome{Error: "cut off"} }}
	if out, err := h.worker.attempt(&to, NewSigner(nil), tasks[0]); err == nil {
		t.Errorf("it ended with %+v", out)
	}
}

// TestDestinationGoes disables and deletes destinations with a backlog: every pending delivery ends, and says why.
func TestDestinationGoes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newHouse(t, d)
		release := make(chan struct{})
		h.worker.Sender = &faultySender{send: func(context.Context, Attempt) Outcome { <-release; return Outcome{} }}
		h.run()
		w, _ := h.webhook(alice)
		gone := h.destination(alice, w.ID, `{"url": "http://gone.test", "concurrency": 1}`)
		off := h.destination(alice, w.ID, `{"url": "http://off.test", "concurrency": 1}`)
		for batch := range slices.Chunk(numbered(laneQueue+50), 50) {
			h.accept(w, alice, batch...)
		}
		must(t, h.store.DeleteDestination(as(alice), "org_a", w.ID, gone.ID, page.IfMatch{}))
		c := config(t, `{"url": "http://off.test", "disabled": true}`)
		_, err := h.store.UpdateDestination(as(alice), "org_a", w.ID, off.ID, &c, page.IfMatch{})
		must(t, err)
		close(release)
		eventually(t, "nothing is pending", func() bool { return len(h.deliveries(alice, w.ID, Filter{Status: Pending})) == 0 })
		reasons := map[string]int{}
		for _, d := range h.deliveries(alice, w.ID, Filter{Status: Failed}) {
			reasons[*d.Error]++
		}
		if len(reasons) != 2 || reasons["the destination was deleted"] < laneQueue || reasons["the destination is disabled"] < laneQueue {
			t.Errorf("reasons %v", reasons)
		}
		h.accept(w, alice, "after")
		if n := len(h.deliveries(alice, w.ID, Filter{Status: Pending})); n != 0 {
			t.Errorf("%d deliveries to disabled destinations", n)
		}
		h.sumsHold("org_a")
	})
}

// TestStop ends a worker with a backlog: what is being sent is finished, the rest is free for others at once.
func TestStop(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newHouse(t, d)
		started, release := make(chan struct{}, 100), make(chan struct{})
		h.worker.Sender = &faultySender{send: func(context.Context, Attempt) Outcome {
			started <- struct{}{}
			<-release
			return Outcome{Response: newAnswer(200, nil, "", 0)}
		}}
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://sink.test", "concurrency": 2}`)
		h.accept(w, alice, numbered(20)...)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); h.worker.Run(ctx) }()
		<-started
		<-started
		stop()
		eventually(t, "the lanes are closed", func() bool {
			h.store.Lanes.mu.Lock()
			defer h.store.Lanes.mu.Unlock()
			return !h.store.Lanes.open
		})
		close(release)
		<-done
		if n := len(h.deliveries(alice, w.ID, Filter{Status: Success})); n != 2 {
			t.Errorf("%d were finished", n)
		}
		other := sameStore(h.store)
		other.Owner, other.Lanes = "rep_2", nil
		if taken, mine := other.claim(t, to.ID, nil, 100); !mine || len(taken) != 18 {
			t.Errorf("another process can claim %d", len(taken))
		}
	})
}

// TestFullDatabase: results that cannot be written are kept until they can be, whole; nothing is sent again meanwhile.
func TestFullDatabase(t *testing.T) {
	h := newHouse(t, dbtest.Open(t, db.SQLite))
	said := make(saying, 1)
	h.worker.Log = slog.New(slog.NewTextHandler(said, nil))
	h.run()
	s := newSink(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, keptBody)) })
	w, _ := h.webhook(alice)
	h.destination(alice, w.ID, `{"url": "`+s.URL+`"}`)
	h.accept(w, alice, "first") // which takes the turn
	ended := func(n int) func() bool {
		return func() bool { return len(h.deliveries(alice, w.ID, Filter{Status: Success})) == n }
	}
	eventually(t, "the first one is delivered", ended(1))
	must(t, h.db.Write(t.Context(), func(tx *db.Tx) error {
		if err := h.store.acceptAll(tx, arrivals(w, 20)); err != nil {
			return err
		}
		_, err := tx.Exec(`PRAGMA max_page_count = 1`) // as many as there are
		return err
	}))
	if text := <-said; !strings.Contains(text, "results could not be written") {
		t.Errorf("the log says %s", text)
	}
	eventually(t, "all are sent", func() bool { return len(s.got()) == 21 })
	h.clock.advance(turnFor - renewBefore + time.Second)
	eventually(t, "the worker has looked around", func() (renewed bool) {
		row := h.db.Read(t.Context()).Row(`SELECT until >= $1 FROM webhook_turns`, stamp.Of(h.clock.now().Add(turnFor)))
		must(t, row.Scan(&renewed))
		return renewed
	})
	must(t, h.db.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`PRAGMA max_page_count = 1000000`)
		return err
	}))
	eventually(t, "all are delivered", ended(21))
	for _, d := range h.deliveries(alice, w.ID, Filter{}) {
		if d.Response == nil {
			t.Errorf("%s has lost its response", d.ID)
		}
	}
	if n := len(s.got()); n != 21 {
		t.Errorf("%d were sent", n)
	}
}

// saying is a log whose first line can be waited for.
type saying chan string

func (s saying) Write(line []byte) (int, error) {
	select {
	case s <- string(line):
	default:
	}
	return len(line), nil
}

func arrivals(w Webhook, n int) (batch []*arrival) {
	for range n {
		batch = append(batch, &arrival{receipt: &Receipt{WebhookID: w.ID, Method: "POST", orgID: "org_a", headerText: "{}"}})
	}
	return batch
}

// TestLargeBodies are not held in memory while they wait.
func TestLargeBodies(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newHouse(t, d)
		h.run()
		s := newSink(t, func(http.ResponseWriter, *http.Request) {})
		w, _ := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "`+s.URL+`", "concurrency": 2}`)
		large := string(make([]byte, 1<<20))
		for range 8 {
			h.accept(w, alice, large)
		}
		eventually(t, "all are delivered", func() bool { return len(h.deliveries(alice, w.ID, Filter{Status: Success})) == 8 })
		for _, body := range s.got() {
			if body != large {
				t.Fatal("a body arrived changed")
			}
		}
	})
}
