package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/e2e/sink"
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

// createReplay creates a replay with these fields, which come in pairs, of all that was accepted so far.
func createReplay(s *installation.Steward, h installation.Hook, fields ...any) (r replay) {
	s.T.Helper()
	body := object{"since": "2026-01-01T00:00:00Z"}
	for i := 0; i < len(fields); i += 2 {
		body[fields[i].(string)] = fields[i+1]
	}
	s.Call("POST", "/webhook/replay/"+h.ID, body).Want(201).Decode(&r)
	return r
}

func replayed(s *installation.Steward, h installation.Hook, id string) (r replay) {
	s.T.Helper()
	s.Call("GET", "/webhook/replay/"+h.ID+"/"+id, nil).Want(200).Decode(&r)
	return r
}

// waitReplay waits until a replay is done.
func waitReplay(s *installation.Steward, h installation.Hook, id string) (r replay) {
	s.T.Helper()
	waittest.Until(s.T, "the end of "+id, func() (int, bool) {
		r = replayed(s, h, id)
		return r.Done, r.State == "done"
	})
	return r
}

func TestReplaySendsAgain(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k, h := sink.New(t), s.NewHook("orders")
		k.Status("/old", 500)
		old, _ := s.NewDestination(h, k.URL+"/old", "max_retries", 0)
		var want []string
		for i := range 5 {
			want = append(want, s.Ingest(h, fmt.Sprint(i)))
		}
		waitEnded(s, map[string]installation.Hook{"": h})
		to, _ := s.NewDestination(h, k.URL+"/new", "concurrency", 1)
		count := s.Call("POST", "/webhook/replay/"+h.ID, object{"since": "2026-01-01T00:00:00Z", "to": to, "dry_run": true}).Want(200)
		if string(count.Body) != "{\"total\":5}\n" {
			t.Errorf("a dry run returns %s", count.Body)
		}
		r := createReplay(s, h, "to", to, "destinationId", old, "status", "failed", "rate", 50)
		if r.Total != 5 || r.State != "running" || r.WebhookID != h.ID || r.FinishedAt != nil {
			t.Errorf("created as %+v", r)
		}
		if r = waitReplay(s, h, r.ID); r.Total != 5 || r.Done != 5 || r.Failed != 0 || r.FinishedAt == nil {
			t.Errorf("ended as %+v", r)
		}
		var got []string
		for _, a := range k.Wait("/new", 5) {
			got = append(got, a.Header.Get("Webhook-Id"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("sent %v, want %v", got, want)
		}
		marked := strings.Count(string(s.Call("GET", "/webhook/delivery-list/"+h.ID, nil).Want(200).Body), `"replay_id":"`+r.ID+`"`)
		if marked != 5 || countDeliveries(s, h, "") != 10 {
			t.Errorf("%d of %d deliveries have the replay's id", marked, countDeliveries(s, h, ""))
		}
		var list []replay
		s.Call("GET", "/webhook/replay/"+h.ID, nil).Want(200).Decode(&list)
		if len(list) != 1 || list[0].ID != r.ID {
			t.Errorf("the list is %+v", list)
		}
		checkCounts(s, map[string]installation.Hook{"": h})
		s.Call("DELETE", "/webhook/replay/"+h.ID+"/"+r.ID, nil).Want(409)
		refuseReplays(s, h, old)
	})
}

// refuseReplays sends requests for replays that cannot be.
func refuseReplays(s *installation.Steward, h installation.Hook, destinationID string) {
	s.T.Helper()
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
		s.Call("POST", path, body).Want(422)
	}
	s.Call("POST", path, object{"since": since, "to": "whds_none"}).Want(404)
	s.Call("POST", "/webhook/replay/wh_none", object{"since": since}).Want(404)
	s.Call("GET", path+"/whrp_none", nil).Want(404)
	s.Call("DELETE", path+"/whrp_none", nil).Want(404)
	config := object{"config": object{"url": "https://example.com", "disabled": true}}
	s.Call("PUT", "/webhook/destination-update/"+h.ID+"/"+destinationID, config).Want(200)
	s.Call("POST", path, object{"since": since, "destinationId": destinationID}).Want(409)
	for range 10 {
		createReplay(s, h, "rate", 1)
	}
}

// TestCancelledReplayStops also deletes and disables the destinations of replays that are running.
func TestCancelledReplayStops(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k, h := sink.New(t), s.NewHook("orders")
		const receipts = 100
		for range receipts {
			s.Ingest(h, "{}")
		}
		var ids, replays []string
		for i := range 3 {
			to, _ := s.NewDestination(h, fmt.Sprintf("%s/%d", k.URL, i))
			ids = append(ids, to)
			replays = append(replays, createReplay(s, h, "to", to, "rate", 2).ID)
		}
		for i := range 3 {
			k.Wait(fmt.Sprintf("/%d", i), 2)
		}
		s.Call("DELETE", "/webhook/replay/"+h.ID+"/"+replays[0], nil).Want(204)
		s.Call("DELETE", "/webhook/replay/"+h.ID+"/"+replays[0], nil).Want(204)
		s.Call("DELETE", "/webhook/destination-delete/"+h.ID+"/"+ids[1], nil).Want(204)
		s.Call("PUT", "/webhook/destination-update/"+h.ID+"/"+ids[2], object{"config": object{"url": k.URL + "/2", "disabled": true}}).Want(200)
		for _, id := range replays[1:] {
			if r := waitReplay(s, h, id); r.Total >= receipts || r.Done != r.Total {
				t.Errorf("ended as %+v", r)
			}
		}
		waitEnded(s, map[string]installation.Hook{"": h})
		if r := replayed(s, h, replays[0]); r.State != "cancelled" || r.FinishedAt == nil || r.Done >= receipts {
			t.Errorf("cancelled as %+v", r)
		}
		checkCounts(s, map[string]installation.Hook{"": h})
	})
}

// TestReplaySurvivesKill kills processes while they replay. Every receipt must be delivered, and
// have one delivery of the replay.
func TestReplaySurvivesKill(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := installation.Start(t, name)
			servers := []*installation.Steward{s}
			if name == "postgres" {
				servers = append(servers, s.Replica())
			}
			k, h := sink.New(t), s.NewHook("orders")
			acked, stop := newAcknowledged(), make(chan struct{})
			clients := sendLoad(s, h, "/replayed", 32, acked, stop)
			waittest.Until(t, "events", func() (int, bool) { n := acked.size(); return n, n >= 3000 })
			close(stop)
			clients.Wait()
			to, _ := s.NewDestination(h, k.URL+"/replayed")
			r := createReplay(s, h, "to", to)
			for round, victim := range servers {
				k.Wait("/replayed", 500*(round+1))
				victim.Kill()
				victim.Start()
			}
			got := waitReplay(s, h, r.ID)
			if got.Total != acked.size() || got.Done != got.Total || got.Failed != 0 {
				t.Errorf("%d receipts were replayed as %+v", acked.size(), got)
			}
			checkReceipts(s, h, k, "/replayed", acked)
			checkCounts(s, map[string]installation.Hook{"/replayed": h})
		})
	}
}

// TestReplayLeavesRoomForOthers ingests while a replay waits for its destination: what is new waits for
// few of the replay's deliveries, and not at all at another destination.
func TestReplayLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k, h := sink.New(t), s.NewHook("orders")
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range 100 {
					s.Ingest(h, "{}")
				}
			})
		}
		group.Wait()
		to, _ := s.NewDestination(h, k.URL+"/same")
		s.NewDestination(h, k.URL+"/other")
		ingested := make(chan struct{})
		k.Handle("/same", func(_ http.ResponseWriter, r *http.Request, n int) {
			if n > 200 {
				select {
				case <-ingested:
				case <-r.Context().Done():
				}
			}
		})
		r := createReplay(s, h, "to", to)
		k.Wait("/same", 200)
		id := s.Ingest(h, "new")
		close(ingested)
		waitReplay(s, h, r.ID)
		position := slices.IndexFunc(k.Wait("/same", 801), func(a sink.Arrival) bool { return a.Header.Get("Webhook-Id") == id && a.Body == "new" })
		if position < 200 || position > 700 {
			t.Errorf("the new one was the %dth of 801", position)
		}
		k.Wait("/other", 1)
		if n := k.Count("/other"); n != 1 {
			t.Errorf("another destination got %d", n)
		}
	})
}
