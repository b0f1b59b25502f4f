package webhook

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/stamp"
)

// TestAnnounced: from before its commit until the lanes have it, a delivery is known to be on its way; a reading that finds it meanwhile
// leaves it, so that it is not sent twice.
func TestAnnounced(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newHouse(t, d)
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
		l := h.store.Lanes
		l.start(func(*lane) {}) // nobody takes anything
		l.lane(to.ID)
		l.turns([]string{to.ID}, []string{to.ID}, stamp.Of(h.clock.now().Add(turnFor)))
		read := func(tasks ...*task) (queued int) {
			l.more(to.ID)
			wish := l.wishes()[0]
			wish.tasks = tasks
			l.filled(wish, nil)
			return len(l.byID[to.ID].queue)
		}
		a := &arrival{receipt: &Receipt{WebhookID: w.ID, Method: "POST", orgID: "org_a", headerText: "{}"}}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			if err := h.store.acceptAll(tx, []*arrival{a}); err != nil {
				return err
			}
			if n := read(&task{Delivery: a.made[0].Delivery}); n != 0 || l.announced() != 1 {
				t.Errorf("%d are queued, %d announced", n, l.announced())
			}
			return nil
		}))
		if n := read(&task{Delivery: a.made[0].Delivery}); n != 1 || l.announced() != 0 {
			t.Errorf("after the commit %d are queued, %d announced", n, l.announced())
		}
	})
}

// TestTriedAgain: of a transaction that failed and is tried again, nothing of the first try is sent.
func TestTriedAgain(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newHouse(t, d)
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
		l := h.store.Lanes
		l.start(func(*lane) {})
		l.lane(to.ID)
		l.turns([]string{to.ID}, []string{to.ID}, stamp.Of(h.clock.now().Add(turnFor)))
		batch := []*arrival{{receipt: &Receipt{WebhookID: w.ID, Method: "POST", orgID: "org_a", headerText: "{}"}}}
		err := d.Write(t.Context(), func(tx *db.Tx) error { return errors.Join(h.store.acceptAll(tx, batch), errRolledBack) })
		if !errors.Is(err, errRolledBack) {
			t.Fatal(err)
		}
		must(t, h.store.acceptNow(batch))
		queued, stored := l.byID[to.ID].queue, h.deliveries(alice, w.ID, Filter{})
		if len(queued) != 1 || len(stored) != 1 || queued[0].ID != stored[0].ID || l.announced() != 0 {
			t.Errorf("%d are queued, %d stored, %d announced", len(queued), len(stored), l.announced())
		}
	})
}

// TestLaneMemory has two destinations hang with much to be sent, which came before the worker ran, or while it did: what is in hand is
// bounded, and all of it arrives at last.
func TestLaneMemory(t *testing.T) {
	const count, size = 150, 60 << 10
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newHouse(t, d)
		release := make(chan struct{})
		s := &faultySender{send: func(context.Context, Attempt) Outcome { <-release; return Outcome{} }}
		h.worker.Sender = s
		hook := func() (Webhook, string) {
			w, _ := h.webhook(alice)
			return w, h.destination(alice, w.ID, `{"url": "http://sink.test", "concurrency": 2}`).ID
		}
		accept := func(w Webhook, n int) {
			for range n {
				h.accept(w, alice, strings.Repeat("x", size))
			}
		}
		sent := func(destinationID string, n int) {
			eventually(t, "they are sent", func() bool { return len(s.bodies(destinationID)) == n })
		}
		bounded := func(destinationID string) {
			l := h.store.Lanes
			l.mu.Lock()
			defer l.mu.Unlock()
			if n := l.byID[destinationID].bytes; n < laneBytes/2 || n > laneBytes+2*inlineBody {
				t.Errorf("%d bytes are in hand", n)
			}
		}
		early, first := hook()
		accept(early, count)
		h.run()
		sent(first, 2)
		bounded(first)
		late, second := hook()
		accept(late, 1)
		sent(second, 1)
		accept(late, count-1)
		bounded(second)
		close(release)
		sent(first, count)
		sent(second, count)
		eventually(t, "nothing is in hand", func() bool { return h.store.Lanes.idle() })
		h.sumsHold("org_a")
	})
}

// idle tells whether nothing is in hand.
func (l *Lanes) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := 0
	for _, n := range l.byID {
		held += len(n.held)
	}
	return held == 0 && l.bytes == 0
}

// TestFewerSlots: goroutines beyond what a destination allows from now on end.
func TestFewerSlots(t *testing.T) {
	h := newHouse(t, dbtest.Open(t, db.SQLite))
	l := h.store.Lanes
	l.start(func(*lane) {})
	n := l.lane("whds_x")
	l.turns([]string{n.id}, []string{n.id}, stamp.Of(h.clock.now().Add(turnFor)))
	l.learn(n, &Destination{Config: Config{Concurrency: 3}}, nil, 0)
	for _, deliveryID := range []string{"a", "b", "c", "d"} {
		l.push(n, &task{Delivery: Delivery{ID: deliveryID}})
	}
	l.learn(n, &Destination{Config: Config{Concurrency: 1}}, nil, 0)
	got := ""
	for range 4 {
		if t := l.take(n, nil); t != nil {
			got += t.ID
		} else {
			got += "-"
		}
	}
	if got != "--ab" || n.running != 1 {
		t.Errorf("took %s, %d goroutines are left", got, n.running)
	}
}

// TestLanesAreForgotten when they had nothing to do for long, and only then.
func TestLanesAreForgotten(t *testing.T) {
	h := newHouse(t, dbtest.Open(t, db.SQLite))
	l := h.store.Lanes
	l.lane("idle")
	l.lane("busy").held["whdv_x"] = &task{}
	l.lane("coming").coming["whdv_y"] = true
	l.lane("backlog").backlog = true
	l.tidy()
	if len(l.byID) != 4 {
		t.Errorf("%d lanes are left at once", len(l.byID))
	}
	h.clock.advance(idleLane + time.Second)
	l.tidy()
	if len(l.byID) != 3 || l.byID["idle"] != nil {
		t.Errorf("%d lanes are left", len(l.byID))
	}
}

// TestTurnIsKept: a delivery that takes longer than a turn keeps its destination, so that no other process sends it as well.
func TestTurnIsKept(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newHouse(t, d)
		started, release := make(chan struct{}), make(chan struct{})
		h.worker.Sender = &faultySender{send: func(context.Context, Attempt) Outcome {
			close(started)
			<-release
			return Outcome{Response: newAnswer(200, nil, "", 0)}
		}}
		h.run()
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://slow.test"}`)
		h.accept(w, alice, "x")
		<-started
		other := sameStore(h.store)
		other.Owner, other.Lanes = "rep_2", nil
		for range 3 {
			h.clock.advance(turnFor - renewBefore + time.Second)
			want := stamp.Of(h.clock.now().Add(turnFor))
			eventually(t, "the turn is renewed", func() bool {
				var until stamp.Time
				must(t, d.Read(t.Context()).Row(`SELECT until FROM webhook_turns WHERE destination_id = $1`, to.ID).Scan(&until))
				return until == want
			})
			if _, mine := other.claim(t, to.ID, nil, 1); mine {
				t.Error("another process has the turn")
			}
		}
		close(release)
		eventually(t, "success", func() bool { return len(h.deliveries(alice, w.ID, Filter{Status: Success})) == 1 })
	})
}

// TestInherit: a process that is alone does not wait for the turns of the one before it, which died.
func TestInherit(t *testing.T) {
	h := newHouse(t, dbtest.Open(t, db.SQLite))
	w, _ := h.webhook(alice)
	to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
	h.accept(w, alice, "x")
	dead := sameStore(h.store)
	dead.Owner = "rep_dead"
	if _, mine := dead.claim(t, to.ID, nil, 1); !mine {
		t.Fatal("the turn was not taken")
	}
	h.worker.Sender, h.worker.Sole = &faultySender{}, true
	h.run() // and the clock stands still
	eventually(t, "success", func() bool { return len(h.deliveries(alice, w.ID, Filter{Status: Success})) == 1 })
}
