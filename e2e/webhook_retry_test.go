package e2e

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

// TestDeliveryIsRetriedOnRequest makes the waiting attempt of a failed delivery due, which is the last
// one of the policy, and then adds another attempt.
func TestDeliveryIsRetriedOnRequest(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k, h := sink.New(t), s.NewHook("orders")
		k.Status("/broken", 500, "Retry-After", "3600")
		id, _ := s.NewDestination(h, k.URL+"/broken", "max_retries", 1)
		receiptID := s.Ingest(h, "x")
		chain := s.FirstAttempt(h, id)
		if len(chain) != 2 || chain[1].Status != "pending" {
			t.Fatalf("attempts %+v", chain)
		}
		waiting := chain[1].ID
		if r := s.RetryDelivery(h, waiting, nil).Want(409); r.Code() != "conflict" {
			t.Errorf("retry of a pending delivery: %s", r.Body)
		}
		var again installation.Delivery
		s.RetryDelivery(h, chain[0].ID, "").Want(200).Decode(&again)
		if again.ID != waiting || again.Status != "pending" || again.Retries != 1 || again.ReceiptID != receiptID {
			t.Errorf("the retry returns %+v, want %s", again, waiting)
		}
		s.WaitStatus(h, waiting, "failed")
		if all := s.ListDeliveries(h, ""); len(all) != 2 {
			t.Errorf("attempts after the last retry: %+v", all)
		}
		k.Status("/broken", 200)
		s.RetryDelivery(h, waiting, object{}).Want(200).Decode(&again)
		if again.ID == waiting || again.Status != "pending" || again.Retries != 2 {
			t.Errorf("the retry returns %+v", again)
		}
		s.WaitStatus(h, again.ID, "success")
		s.RetryDelivery(h, again.ID, nil).Want(409)
		if n := k.Count("/broken"); n != 3 {
			t.Errorf("%d requests were sent, want 3", n)
		}
		s.RetryDelivery(h, "whdv_01jcq3v5w8z9d6y4k2m7n0p1rt", nil).Want(404)
		s.RetryDelivery(installation.Hook{ID: "wh_01jcq3v5w8z9d6y4k2m7n0p1rt"}, again.ID, nil).Want(404)
	})
}

// TestDeliveryIsRetriedByPolicyAndRetryAfter checks the first pause of the policy, 5 s ± 20 %, and a
// Retry-After of 1 s.
func TestDeliveryIsRetriedByPolicyAndRetryAfter(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	k, h := sink.New(t), s.NewHook("orders")
	failOnce := func(status int, headers ...string) sink.Handler {
		return func(w http.ResponseWriter, _ *http.Request, n int) {
			if n == 1 {
				for i := 0; i < len(headers); i += 2 {
					w.Header().Set(headers[i], headers[i+1])
				}
				w.WriteHeader(status)
			}
		}
	}
	k.Handle("/flaky", failOnce(500))
	k.Handle("/busy", failOnce(429, "Retry-After", "1"))
	flaky, _ := s.NewDestination(h, k.URL+"/flaky")
	busy, _ := s.NewDestination(h, k.URL+"/busy")
	receiptID := s.Ingest(h, `{"n": 1}`)
	for _, retry := range []struct {
		path     string
		min, max time.Duration
	}{{"/busy", time.Second, 3 * time.Second}, {"/flaky", 4 * time.Second, 7 * time.Second}} {
		path := retry.path
		waittest.Within(t, retry.max, "the second attempt at "+path, func() bool {
			s.Call("GET", "/healthz", nil).Want(200)
			return k.Count(path) == 2
		})
		got := k.Wait(path, 2)
		if pause := got[1].At.Sub(got[0].At); pause < retry.min {
			t.Errorf("%s was retried after %v, want %v or more", path, pause, retry.min)
		}
		for i := range 2 {
			header := got[i].Header
			if header.Get("Webhook-Id") != receiptID || header.Get("Steward-Attempt") != strconv.Itoa(i) {
				t.Errorf("%s: attempt %d has the headers %v", path, i, header)
			}
		}
	}
	for _, id := range []string{flaky, busy} {
		var all []installation.Delivery
		waittest.True(t, "the end of the second attempt", func() bool {
			all = s.ListDeliveries(h, "destinationId="+id)
			return len(all) == 2 && all[0].Status != "pending"
		})
		if all[0].Status != "success" || all[0].Retries != 1 || all[1].Status != "failed" {
			t.Errorf("attempts %+v", all)
		}
	}
}
