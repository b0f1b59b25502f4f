package queue_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/disk"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/waittest"
	"steward/internal/webhook"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/send"
)

// TestDeliveriesWaitForTheDisk has a disk that is almost full, until there is room.
func TestDeliveriesWaitForTheDisk(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		n := &network{}
		h.sender.Network = n
		const reserve = 1 << 60 // more than any disk has
		var checks, reusable atomic.Int64
		h.scheduler.Disk = &disk.Space{Dir: t.TempDir(), Reserve: reserve, Reusable: func() (int64, error) {
			checks.Add(1)
			return reusable.Load(), nil
		}}
		h.run()
		w := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
		h.accept(w, alice, "x")
		waittest.Until(t, "the disk to be checked", func() (int64, bool) { return checks.Load(), checks.Load() > 2 })
		if got := n.bodies("http://sink.test"); len(got) > 0 {
			t.Errorf("%d deliveries were sent", len(got))
		}
		reusable.Store(reserve)
		n.waitFor(t, "http://sink.test", 1)
	})
}

// TestDeliveriesStartInOrder sends more than memory may hold to a destination with concurrency 1.
func TestDeliveriesStartInOrder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		n := &network{}
		h.sender.Network = n
		h.run()
		w := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "http://sink.test", "concurrency": 1}`)
		want := numbered(3*queue.ReadAhead + 7)
		for batch := range slices.Chunk(want, 50) {
			h.accept(w, alice, batch...)
		}
		n.waitFor(t, "http://sink.test", len(want))
		if got := n.bodies("http://sink.test"); !slices.Equal(got, want) {
			t.Errorf("%d arrived, not in order", len(got))
		}
		h.waitFor(alice, w, webhook.Pending, 0)
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
		h.sender.Network = n
		h.run()
		w := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "http://hangs.test", "concurrency": 3}`)
		h.destination(alice, w.ID, `{"url": "http://fails.test"}`)
		h.destination(alice, w.ID, `{"url": "http://healthy.test"}`)
		want := numbered(queue.ReadAhead + 100)
		for batch := range slices.Chunk(want, 64) {
			h.accept(w, alice, batch...)
		}
		n.waitFor(t, "http://healthy.test", len(want))
		if sent := len(n.bodies("http://hangs.test")); sent != 3 {
			t.Errorf("%d deliveries at the same time, want 3", sent)
		}
		close(release)
		n.waitFor(t, "http://hangs.test", len(want))
		h.waitFor(alice, w, webhook.Success, 2*len(want))
		h.sumsHold("org_a")
	})
}

// TestUnreadableDestinationDelaysNoOther has a destination whose settings cannot be decrypted, and
// a malformed row in the queue.
func TestUnreadableDestinationDelaysNoOther(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		n := &network{}
		h.sender.Network = n
		w := h.webhook(alice)
		bad := h.destination(alice, w.ID, `{"url": "http://bad.test"}`)
		good := h.destination(alice, w.ID, `{"url": "http://good.test"}`)
		other, err := seal.NewRing([]byte("ffffffffffffffffffffffffffffffff"))
		must(t, err)
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			if _, err := tx.Exec(`UPDATE webhook_destinations SET config = $2 WHERE id = $1`, bad.ID,
				other.Seal("webhook.destination.config", []byte(`{}`))); err != nil {
				return err
			}
			_, err := tx.Exec(`INSERT INTO webhook_queue (key, org_id, destination_id, receipt_key, date, retries, due_at, size)
				VALUES ('malformed', 'org_a', $1, 'malformed', 0, 0, 0, 0)`, good.ID)
			return err
		}))
		h.accept(w, alice, numbered(20)...)
		h.run()
		h.waitFor(alice, w, webhook.Success, 20)
		h.waitFor(alice, w, webhook.Failed, 20)
		for _, f := range h.deliveries(alice, w.ID, webhook.Filter{Status: webhook.Failed}) {
			if f.DestinationID != bad.ID || *f.Error != "the destination's settings cannot be read" {
				t.Fatalf("failed: %+v", f)
			}
		}
		if waiting := len(h.deliveries(alice, w.ID, webhook.Filter{Status: webhook.Pending, DestinationID: bad.ID})); waiting != 20 {
			t.Errorf("%d retries, want 20", waiting)
		}
	})
}

// TestLeaseKeepsOthersAway has a process die with deliveries in memory: another one sends them once
// the lease has expired, and not before.
func TestLeaseKeepsOthersAway(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
		h.accept(w, alice, numbered(5)...)
		dead := h.process("rep_dead")
		lost, held := claim(t, dead, to.ID, 3)
		if !held || len(lost) != 3 {
			t.Fatalf("claimed %d", len(lost))
		}
		if _, held := claim(t, h.store, to.ID, 9); held {
			t.Error("a lease of another process was taken")
		}
		heads, err := h.store.Queue.Heads(t.Context(), 0)
		must(t, err)
		if len(heads) != 1 || !heads[0].Leased {
			t.Errorf("heads %+v", heads)
		}
		h.clock.advance(queue.LeaseFor)
		heads, err = h.store.Queue.Heads(t.Context(), 0)
		must(t, err)
		if len(heads) != 1 || heads[0].Leased || heads[0].Key != lost[0].Key {
			t.Errorf("heads %+v", heads)
		}
		taken, held := claim(t, h.store, to.ID, 9)
		if !held || len(taken) != 5 {
			t.Errorf("claimed %d", len(taken))
		}
		late, _, err := dead.Finish(t.Context(), []queue.Result{{Row: lost[0], At: lost[0].Date}})
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
		h.sender.Network = n
		h.run()
		w := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://slow.test"}`)
		h.accept(w, alice, "x")
		waittest.Receive(t, "the attempt", chanOf(started))
		other := h.process("rep_2")
		for range 3 {
			h.clock.advance(queue.LeaseFor - queue.RenewBefore + time.Second)
			want := stamp.Of(h.clock.now().Add(queue.LeaseFor))
			waittest.True(t, "the lease is renewed", func() bool { return h.leaseUntil(to.ID) == want })
			if _, held := claim(t, other, to.ID, 1); held {
				t.Error("another process has the lease")
			}
		}
		close(release)
		h.waitFor(alice, w, webhook.Success, 1)
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
	w := h.webhook(alice)
	to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
	h.accept(w, alice, "x")
	if _, held := claim(t, h.process("rep_dead"), to.ID, 1); !held {
		t.Fatal("the lease was not taken")
	}
	n := &network{}
	h.sender.Network = n
	h.scheduler.Exclusive = true
	h.run() // and the clock stands still
	h.waitFor(alice, w, webhook.Success, 1)
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
	other.store = other.process("rep_2")
	var sent atomic.Int64
	n := &network{respond: func(context.Context, send.Request) send.Result {
		if sent.Add(1)%3 == 0 {
			return send.Result{Error: "no", RetryAfter: time.Second}
		}
		return ok()
	}}
	for _, one := range []*fixture{h, other} {
		one.sender, one.scheduler = newScheduler(one.store, n)
		one.run()
	}
	var hooks []webhook.Webhook
	for range 4 {
		w := h.webhook(alice)
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
			succeeded += len(h.deliveries(alice, w.ID, webhook.Filter{Status: webhook.Success}))
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
	other := h.process("rep_2")
	n := &network{}
	h.sender.Network = n
	_, second := newScheduler(other, n)
	h.run()
	run(t, second)
	w := h.webhook(alice)
	h.destination(alice, w.ID, `{"url": "http://sink.test", "concurrency": 1}`)
	want := numbered(200)
	for i, body := range want {
		store := []*webhook.Store{h.store, other}[i%2]
		must(t, acceptBy(store, w, alice, body))
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
	w := h.webhook(alice)
	to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
	h.accept(w, alice, numbered(20)...)
	rows, _ := claim(t, h.store, to.ID, 20)
	var results []queue.Result
	for i, row := range rows {
		r := queue.Result{Row: row, At: row.Date, Response: `{}`}
		if i == 7 {
			r.Response = "\x00"
		}
		results = append(results, r)
	}
	h.scheduler.Write(to.ID, results)
	without := 0
	for _, d := range h.deliveries(alice, w.ID, webhook.Filter{Status: webhook.Success}) {
		if d.Response == nil {
			without++
		}
	}
	if without != 1 {
		t.Errorf("%d deliveries are without a response", without)
	}
	h.sumsHold("org_a")
}
