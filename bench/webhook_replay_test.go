//go:build bench

package bench

import (
	"fmt"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/waittest"
)

// replayed is how many receipts are replayed.
const replayed = 100_000

// replay is a replay as the API returns it.
type replay struct {
	ID                  string
	State               string
	Total, Done, Failed int
}

// replay starts a replay of all receipts of a webhook.
func (in *installation) replay(h hook, destinationID string) (r replay) {
	in.t.Helper()
	in.call("POST", "/webhook/replay/"+h.id, map[string]any{"since": "2026-01-01T00:00:00Z", "to": destinationID}, &r)
	return r
}

// waitReplay waits until a replay is done.
func (in *installation) waitReplay(h hook, id string) (r replay) {
	in.t.Helper()
	waittest.Until(in.t, "the end of "+id, func() (int, bool) {
		in.call("GET", "/webhook/replay/"+h.id+"/"+id, nil, &r)
		return r.Done, r.State == "done"
	})
	return r
}

// TestReplayKilled replays 100,000 receipts to two destinations at the same time, while processes are
// killed and started again. Every receipt must arrive, in order where the concurrency is 1, and have one
// delivery of each replay.
func TestReplayKilled(t *testing.T) {
	const kills = 4
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		h := in.hook()
		s := fixture{in: in, hook: h, destinationID: in.destination(h, "127.0.0.1:9"), rows: replayed, feed: &feed{}}
		in.restart(s.load)
		servers := in.replicas()
		sinks := []*sink{startSink(t), startSink(t)}
		began := time.Now()
		replays := []replay{
			in.replay(h, in.destination(h, sinks[0].address, "concurrency", 1)),
			in.replay(h, in.destination(h, sinks[1].address)),
		}
		for round := 1; round <= kills; round++ {
			want := replayed * round / (kills + 1)
			for _, k := range sinks {
				waittest.Until(t, fmt.Sprintf("%d deliveries", want), func() (int, bool) { n := k.wait(want); return n, n >= want })
			}
			victim := servers[round%len(servers)]
			victim.Kill()
			victim.start()
		}
		for i, k := range sinks {
			r := in.waitReplay(h, replays[i].ID)
			if r.Total != replayed || r.Done != replayed || r.Failed != 0 {
				t.Errorf("ended as %+v", r)
			}
			got := k.take()
			if got.Count != replayed || i == 0 && got.Late > 0 {
				t.Errorf("%d of %d receipts arrived, %d after one that follows them", got.Count, replayed, got.Late)
			}
			fmt.Printf("%s: %d receipts were replayed in %.0f s over %d kills, %d arrived twice\n",
				database, got.Count, got.Last.Sub(began).Seconds(), kills, got.Repeated)
		}
		in.checkReplays(h, replays)
	})
}

// checkReplays fails unless every receipt has one delivery of each replay, a success.
func (in *installation) checkReplays(h hook, replays []replay) {
	in.t.Helper()
	type delivery struct {
		Receipt string `json:"webhook_receipt_id"`
		Replay  string `json:"replay_id"`
		Status  string
	}
	found := map[string]map[string]int{} // how many deliveries, by replay and receipt
	for page := "/webhook/delivery-list/" + h.id + "?limit=1000"; page != ""; {
		var list []delivery
		page = nextPage(in.call("GET", page, nil, &list))
		for _, d := range list {
			if d.Replay == "" {
				continue // it was there before
			}
			if found[d.Replay] == nil {
				found[d.Replay] = map[string]int{}
			}
			found[d.Replay][d.Receipt]++
			if n := found[d.Replay][d.Receipt]; n != 1 || d.Status != "success" {
				in.t.Errorf("%s has %d deliveries of %s, one of them is %s", d.Receipt, n, d.Replay, d.Status)
			}
		}
	}
	for _, r := range replays {
		if n := len(found[r.ID]); n != replayed {
			in.t.Errorf("%d of %d receipts have a delivery of %s", n, replayed, r.ID)
		}
	}
}

// TestReplayIsolation measures the deliveries of one destination alone and while another one replays, in
// turns, so that a disturbance affects both. Its load is light: the p99 is that of the disk, not of a
// server that is busy.
func TestReplayIsolation(t *testing.T) {
	const perSecond, conns, rounds, duration = 50, 10, 5, 5 * time.Second
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in, to, other, f := install(t, database), startSink(t), startSink(t), &feed{}
		h, filled := in.hook(), in.hook()
		s := fixture{in: in, hook: filled, destinationID: in.destination(filled, "127.0.0.1:9"), rows: replayed, feed: f}
		in.restart(s.load)
		in.destination(h, to.address)
		destinationID := in.destination(filled, other.address)
		p99 := func() float64 {
			sent := load(t, in.server, conns, duration, f.paced(h.path, conns, perSecond))
			return millis(to.expect(len(sent.times)).quantile(0.99))
		}
		p99() // warms up
		var alone, beside, more []float64
		rate := 0.0
		for i := range rounds {
			alone = append(alone, p99())
			began := time.Now()
			r := in.replay(filled, destinationID)
			beside = append(beside, p99())
			in.call("GET", "/webhook/replay/"+filled.id+"/"+r.ID, nil, &r)
			if r.State != "running" {
				t.Errorf("the replay ended before the measurement: %+v", r)
			}
			rate = float64(r.Done) / time.Since(began).Seconds()
			in.call("DELETE", "/webhook/replay/"+filled.id+"/"+r.ID, nil, nil)
			in.drained(filled)
			more = append(more, beside[i]-alone[i])
		}
		report(fmt.Sprintf("%s: p99 ms beside a replay, more than alone", database), median(more), atMost(20),
			"%d events/s, alone %.1f, beside %.1f; replayed %.0f/s", perSecond, alone, beside, rate)
	})
}

// drained waits until nothing of a webhook is pending.
func (in *installation) drained(h hook) {
	in.t.Helper()
	waittest.True(in.t, "the end of all deliveries", func() bool {
		var pending []struct{}
		in.call("GET", "/webhook/delivery-list/"+h.id+"?status=pending", nil, &pending)
		return len(pending) == 0
	})
}
