package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/waittest"
)

// replay is a replay as the API returns it.
type replay struct {
	ID                  string
	WebhookID           string `json:"webhook_id"`
	State               string
	Total, Done, Failed int
	FinishedAt          *time.Time `json:"finished_at"`
}

// replay creates a replay with these fields, which come in pairs, of all that was accepted so far.
func (s *steward) replay(h hook, fields ...any) (r replay) {
	s.t.Helper()
	body := object{"since": "2026-01-01T00:00:00Z"}
	for i := 0; i < len(fields); i += 2 {
		body[fields[i].(string)] = fields[i+1]
	}
	s.call("POST", "/webhook/replay/"+h.ID, body).want(201).decode(&r)
	return r
}

func (s *steward) replayed(h hook, id string) (r replay) {
	s.t.Helper()
	s.call("GET", "/webhook/replay/"+h.ID+"/"+id, nil).want(200).decode(&r)
	return r
}

// waitReplay waits until a replay is done.
func (s *steward) waitReplay(h hook, id string) (r replay) {
	s.t.Helper()
	waittest.Until(s.t, "the end of "+id, func() (int, bool) {
		r = s.replayed(h, id)
		return r.Done, r.State == "done"
	})
	return r
}

func TestReplaySendsAgain(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		k.status("/old", 500)
		old, _ := s.destination(h, k.URL+"/old", "max_retries", 0)
		var want []string
		for i := range 5 {
			want = append(want, s.ingest(h, fmt.Sprint(i)))
		}
		s.waitEnded(map[string]hook{"": h})
		to, _ := s.destination(h, k.URL+"/new", "concurrency", 1)
		count := s.call("POST", "/webhook/replay/"+h.ID, object{"since": "2026-01-01T00:00:00Z", "to": to, "dry_run": true}).want(200)
		if string(count.body) != "{\"total\":5}\n" {
			t.Errorf("a dry run returns %s", count.body)
		}
		r := s.replay(h, "to", to, "destinationId", old, "status", "failed", "rate", 50)
		if r.Total != 5 || r.State != "running" || r.WebhookID != h.ID || r.FinishedAt != nil {
			t.Errorf("created as %+v", r)
		}
		if r = s.waitReplay(h, r.ID); r.Total != 5 || r.Done != 5 || r.Failed != 0 || r.FinishedAt == nil {
			t.Errorf("ended as %+v", r)
		}
		var got []string
		for _, a := range k.wait("/new", 5) {
			got = append(got, a.header.Get("Webhook-Id"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("sent %v, want %v", got, want)
		}
		marked := strings.Count(string(s.call("GET", "/webhook/delivery-list/"+h.ID, nil).want(200).body), `"replay_id":"`+r.ID+`"`)
		if marked != 5 || s.countDeliveries(h, "") != 10 {
			t.Errorf("%d of %d deliveries have the replay's id", marked, s.countDeliveries(h, ""))
		}
		var list []replay
		s.call("GET", "/webhook/replay/"+h.ID, nil).want(200).decode(&list)
		if len(list) != 1 || list[0].ID != r.ID {
			t.Errorf("the list is %+v", list)
		}
		s.checkCounts(map[string]hook{"": h})
		s.call("DELETE", "/webhook/replay/"+h.ID+"/"+r.ID, nil).want(409)
		s.refuseReplays(h, old)
	})
}

// refuseReplays sends requests for replays that cannot be.
func (s *steward) refuseReplays(h hook, destinationID string) {
	s.t.Helper()
	path := "/webhook/replay/" + h.ID
	since := "2026-01-01T00:00:00Z"
	for _, body := range []object{
		{},
		{"since": "yesterday"},
		{"since": since, "until": "2025-01-01T00:00:00Z"},
		{"since": "2999-01-01T00:00:00Z"},
		{"since": since, "status": "lost"},
		{"since": since, "rate": 0},
		{"since": since, "rate": 1_000_000},
	} {
		s.call("POST", path, body).want(422)
	}
	s.call("POST", path, object{"since": since, "to": "whds_none"}).want(404)
	s.call("POST", "/webhook/replay/wh_none", object{"since": since}).want(404)
	s.call("GET", path+"/whrp_none", nil).want(404)
	s.call("DELETE", path+"/whrp_none", nil).want(404)
	config := object{"config": object{"url": "https://example.com", "disabled": true}}
	s.call("PUT", "/webhook/destination-update/"+h.ID+"/"+destinationID, config).want(200)
	s.call("POST", path, object{"since": since, "destinationId": destinationID}).want(409)
	for range 10 {
		s.replay(h, "rate", 1)
	}
}

// TestCancelledReplayStops also deletes and disables the destinations of replays that are running.
func TestCancelledReplayStops(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		const receipts = 100
		for range receipts {
			s.ingest(h, "{}")
		}
		var ids, replays []string
		for i := range 3 {
			to, _ := s.destination(h, fmt.Sprintf("%s/%d", k.URL, i))
			ids = append(ids, to)
			replays = append(replays, s.replay(h, "to", to, "rate", 2).ID)
		}
		for i := range 3 {
			k.wait(fmt.Sprintf("/%d", i), 2)
		}
		s.call("DELETE", "/webhook/replay/"+h.ID+"/"+replays[0], nil).want(204)
		s.call("DELETE", "/webhook/replay/"+h.ID+"/"+replays[0], nil).want(204)
		s.call("DELETE", "/webhook/destination-delete/"+h.ID+"/"+ids[1], nil).want(204)
		s.call("PUT", "/webhook/destination-update/"+h.ID+"/"+ids[2], object{"config": object{"url": k.URL + "/2", "disabled": true}}).want(200)
		for _, id := range replays[1:] {
			if r := s.waitReplay(h, id); r.Total >= receipts || r.Done != r.Total {
				t.Errorf("ended as %+v", r)
			}
		}
		s.waitEnded(map[string]hook{"": h})
		if r := s.replayed(h, replays[0]); r.State != "cancelled" || r.FinishedAt == nil || r.Done >= receipts {
			t.Errorf("cancelled as %+v", r)
		}
		s.checkCounts(map[string]hook{"": h})
	})
}

// TestReplaySurvivesKill kills processes while they replay. Every receipt must be delivered, and
// have one delivery of the replay.
func TestReplaySurvivesKill(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, name)
			servers := []*steward{s}
			if name == "postgres" {
				servers = append(servers, s.replica())
			}
			k, h := newSink(t), s.hook("orders")
			acked, stop := newAcknowledged(), make(chan struct{})
			clients := s.load(h, "/replayed", 32, acked, stop)
			waittest.Until(t, "events", func() (int, bool) { n := acked.size(); return n, n >= 3000 })
			close(stop)
			clients.Wait()
			to, _ := s.destination(h, k.URL+"/replayed")
			r := s.replay(h, "to", to)
			for round, victim := range servers {
				k.wait("/replayed", 500*(round+1))
				victim.kill()
				victim.start()
			}
			got := s.waitReplay(h, r.ID)
			if got.Total != acked.size() || got.Done != got.Total || got.Failed != 0 {
				t.Errorf("%d receipts were replayed as %+v", acked.size(), got)
			}
			s.checkReceipts(h, k, "/replayed", acked)
			s.checkCounts(map[string]hook{"/replayed": h})
		})
	}
}

// TestReplayLeavesRoomForOthers ingests while a replay waits for its destination: what is new waits for
// few of the replay's deliveries, and not at all at another destination.
func TestReplayLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range 100 {
					s.ingest(h, "{}")
				}
			})
		}
		group.Wait()
		to, _ := s.destination(h, k.URL+"/same")
		s.destination(h, k.URL+"/other")
		ingested := make(chan struct{})
		k.handle("/same", func(_ http.ResponseWriter, r *http.Request, n int) {
			if n > 200 {
				select {
				case <-ingested:
				case <-r.Context().Done():
				}
			}
		})
		r := s.replay(h, "to", to)
		k.wait("/same", 200)
		id := s.ingest(h, "new")
		close(ingested)
		s.waitReplay(h, r.ID)
		position := slices.IndexFunc(k.wait("/same", 801), func(a arrival) bool { return a.header.Get("Webhook-Id") == id && a.body == "new" })
		if position < 200 || position > 700 {
			t.Errorf("the new one was the %dth of 801", position)
		}
		k.wait("/other", 1)
		if n := k.count("/other"); n != 1 {
			t.Errorf("another destination got %d", n)
		}
	})
}
