package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

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
		s.WaitEnded(map[string]installation.Hook{"": h})
		to, _ := s.NewDestination(h, k.URL+"/new", "concurrency", 1)
		count := s.Call("POST", "/webhook/replay/"+h.ID, object{"since": "2026-01-01T00:00:00Z", "to": to, "dry_run": true}).Want(200)
		if string(count.Body) != "{\"total\":5}\n" {
			t.Errorf("a dry run returns %s", count.Body)
		}
		r := s.CreateReplay(h, "to", to, "destinationId", old, "status", "failed", "rate", 50)
		if r.Total != 5 || r.State != "running" || r.WebhookID != h.ID || r.FinishedAt != nil {
			t.Errorf("created as %+v", r)
		}
		if r = s.WaitReplay(h, r.ID); r.Total != 5 || r.Done != 5 || r.Failed != 0 || r.FinishedAt == nil {
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
		if marked != 5 || s.CountDeliveries(h, "") != 10 {
			t.Errorf("%d of %d deliveries have the replay's id", marked, s.CountDeliveries(h, ""))
		}
		var list []installation.Replay
		s.Call("GET", "/webhook/replay/"+h.ID, nil).Want(200).Decode(&list)
		if len(list) != 1 || list[0].ID != r.ID {
			t.Errorf("the list is %+v", list)
		}
		s.CheckCounts(map[string]installation.Hook{"": h})
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
		s.CreateReplay(h, "rate", 1)
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
			replays = append(replays, s.CreateReplay(h, "to", to, "rate", 2).ID)
		}
		for i := range 3 {
			k.Wait(fmt.Sprintf("/%d", i), 2)
		}
		s.Call("DELETE", "/webhook/replay/"+h.ID+"/"+replays[0], nil).Want(204)
		s.Call("DELETE", "/webhook/replay/"+h.ID+"/"+replays[0], nil).Want(204)
		s.Call("DELETE", "/webhook/destination-delete/"+h.ID+"/"+ids[1], nil).Want(204)
		s.Call("PUT", "/webhook/destination-update/"+h.ID+"/"+ids[2], object{"config": object{"url": k.URL + "/2", "disabled": true}}).Want(200)
		for _, id := range replays[1:] {
			if r := s.WaitReplay(h, id); r.Total >= receipts || r.Done != r.Total {
				t.Errorf("ended as %+v", r)
			}
		}
		s.WaitEnded(map[string]installation.Hook{"": h})
		if r := s.Replayed(h, replays[0]); r.State != "cancelled" || r.FinishedAt == nil || r.Done >= receipts {
			t.Errorf("cancelled as %+v", r)
		}
		s.CheckCounts(map[string]installation.Hook{"": h})
	})
}
