package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/waittest"
	"steward/internal/webhook"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/send"
)

// TestPendingDeliveriesEndWithTheirDestination disables and deletes destinations with a backlog.
func TestPendingDeliveriesEndWithTheirDestination(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		release := make(chan struct{})
		n := &network{respond: func(context.Context, send.Request) send.Result { <-release; return ok() }}
		h.sender.Network = n
		h.run()
		w := h.webhook(alice)
		gone := h.destination(alice, w.ID, `{"url": "http://gone.test", "concurrency": 1}`)
		off := h.destination(alice, w.ID, `{"url": "http://off.test", "concurrency": 1}`)
		for batch := range slices.Chunk(numbered(queue.ReadAhead+50), 50) {
			h.accept(w, alice, batch...)
		}
		must(t, h.store.DeleteDestination(as(alice), webhook.DestinationRef{OrgID: "org_a", WebhookID: w.ID, ID: gone.ID}, page.IfMatch{}))
		h.change(alice, off, `{"url": "http://off.test", "disabled": true}`)
		close(release)
		h.waitFor(alice, w, webhook.Pending, 0)
		reasons := map[string]int{}
		for _, d := range h.deliveries(alice, w.ID, webhook.Filter{Status: webhook.Failed}) {
			reasons[*d.Error]++
		}
		if len(reasons) != 2 || reasons["the destination was deleted"] < queue.ReadAhead || reasons["the destination is disabled"] < queue.ReadAhead {
			t.Errorf("reasons %v", reasons)
		}
		h.accept(w, alice, "after")
		if waiting := len(h.deliveries(alice, w.ID, webhook.Filter{Status: webhook.Pending})); waiting != 0 {
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
		h.sender.Network = n
		w := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://sink.test", "concurrency": 2}`)
		h.accept(w, alice, numbered(20)...)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); h.scheduler.Run(ctx) }()
		waittest.Receive(t, "the first attempt", started)
		waittest.Receive(t, "the second attempt", started)
		stop()
		waittest.True(t, "the lanes are closed", h.scheduler.IsClosed)
		close(release)
		waittest.Receive(t, "the end", chanOf(done))
		if ended := len(h.deliveries(alice, w.ID, webhook.Filter{Status: webhook.Success})); ended != 2 {
			t.Errorf("%d have ended", ended)
		}
		if taken, held := claim(t, h.process("rep_2"), to.ID, 100); !held || len(taken) != 18 {
			t.Errorf("another process can claim %d", len(taken))
		}
	})
}

// TestResultsWaitForTheDatabase: results that cannot be written are kept until they can be; nothing
// is sent again meanwhile.
func TestResultsWaitForTheDatabase(t *testing.T) {
	h := newFixture(t, dbtest.Open(t, db.SQLite))
	logged := make(firstLine, 1)
	h.scheduler.Log = slog.New(slog.NewTextHandler(logged, nil))
	h.run()
	n := &network{respond: func(context.Context, send.Request) send.Result {
		return send.Result{Response: &send.Response{Status: 200, Body: strings.Repeat("x", 16<<10)}}
	}}
	h.sender.Network = n
	w := h.webhook(alice)
	to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
	h.accept(w, alice, "first") // which takes the lease
	h.waitFor(alice, w, webhook.Success, 1)
	must(t, h.db.Write(t.Context(), func(tx *db.Tx) error {
		if err := h.store.AcceptEventsTx(tx, "org_a", w.ID, bytesOf(numbered(20))); err != nil {
			return err
		}
		_, err := tx.Exec(`PRAGMA max_page_count = 1`) // as many as there are
		return err
	}))
	if line := waittest.Receive(t, "a line in the log", logged); !strings.Contains(line, "write results") {
		t.Errorf("the log says %s", line)
	}
	waittest.Until(t, "21 requests", func() (int, bool) { sent := len(n.bodies("http://sink.test")); return sent, sent == 21 })
	h.clock.advance(queue.LeaseFor - queue.RenewBefore + time.Second)
	want := stamp.Of(h.clock.now().Add(queue.LeaseFor))
	waittest.True(t, "the lease is renewed", func() bool { return h.leaseUntil(to.ID) >= want })
	must(t, h.db.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`PRAGMA max_page_count = 1000000`)
		return err
	}))
	h.waitFor(alice, w, webhook.Success, 21)
	for _, d := range h.deliveries(alice, w.ID, webhook.Filter{}) {
		if d.Response == nil {
			t.Errorf("%s has no response", d.ID)
		}
	}
	if sent := len(n.bodies("http://sink.test")); sent != 21 {
		t.Errorf("%d requests", sent)
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
		h.sender.Network = n
		h.run()
		var hooks []webhook.Webhook
		for i := range 3 {
			w := h.webhook(alice)
			h.destination(alice, w.ID, fmt.Sprintf(`{"url": "http://sink%d.test", "concurrency": 100}`, i))
			hooks = append(hooks, w)
		}
		for range count {
			for _, w := range hooks {
				h.accept(w, alice, strings.Repeat("x", size))
			}
		}
		perLane := h.scheduler.Share()
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
			h.waitFor(alice, w, webhook.Success, count)
		}
		waittest.True(t, "nothing is in memory", func() bool { return h.scheduler.Stats() == queue.Stats{} })
		h.sumsHold("org_a")
	})
}
