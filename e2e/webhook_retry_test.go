package e2e

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"steward/internal/waittest"
)

// TestDeliveryIsRetriedOnRequest makes the waiting attempt of a failed delivery due, which is the last
// one of the policy, and then adds another attempt.
func TestDeliveryIsRetriedOnRequest(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		k.status("/broken", 500, "Retry-After", "3600")
		id, _ := s.destination(h, k.URL+"/broken", "max_retries", 1)
		receiptID := s.ingest(h, "x")
		chain := s.firstAttempt(h, id)
		if len(chain) != 2 || chain[1].Status != "pending" {
			t.Fatalf("attempts %+v", chain)
		}
		waiting := chain[1].ID
		if r := s.retry(h, waiting, nil).want(409); r.code() != "conflict" {
			t.Errorf("retry of a pending delivery: %s", r.body)
		}
		var again delivery
		s.retry(h, chain[0].ID, "").want(200).decode(&again)
		if again.ID != waiting || again.Status != "pending" || again.Retries != 1 || again.ReceiptID != receiptID {
			t.Errorf("the retry returns %+v, want %s", again, waiting)
		}
		s.waitStatus(h, waiting, "failed")
		if all := s.deliveries(h, ""); len(all) != 2 {
			t.Errorf("attempts after the last retry: %+v", all)
		}
		k.status("/broken", 200)
		s.retry(h, waiting, object{}).want(200).decode(&again)
		if again.ID == waiting || again.Status != "pending" || again.Retries != 2 {
			t.Errorf("the retry returns %+v", again)
		}
		s.waitStatus(h, again.ID, "success")
		s.retry(h, again.ID, nil).want(409)
		if n := k.count("/broken"); n != 3 {
			t.Errorf("%d requests were sent, want 3", n)
		}
		s.retry(h, "whdv_01jcq3v5w8z9d6y4k2m7n0p1rt", nil).want(404)
		s.retry(hook{ID: "wh_01jcq3v5w8z9d6y4k2m7n0p1rt"}, again.ID, nil).want(404)
	})
}

// TestDeliveryIsRetriedByPolicyAndRetryAfter checks the first pause of the policy, 5 s ± 20 %, and a
// Retry-After of 1 s.
func TestDeliveryIsRetriedByPolicyAndRetryAfter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h := newSink(t), s.hook("orders")
		failOnce := func(status int, headers ...string) handler {
			return func(w http.ResponseWriter, _ *http.Request, n int) {
				if n == 1 {
					for i := 0; i < len(headers); i += 2 {
						w.Header().Set(headers[i], headers[i+1])
					}
					w.WriteHeader(status)
				}
			}
		}
		k.handle("/flaky", failOnce(500))
		k.handle("/busy", failOnce(429, "Retry-After", "1"))
		flaky, _ := s.destination(h, k.URL+"/flaky")
		busy, _ := s.destination(h, k.URL+"/busy")
		receiptID := s.ingest(h, `{"n": 1}`)
		for _, retry := range []struct {
			path     string
			min, max time.Duration
		}{{"/busy", time.Second, 3 * time.Second}, {"/flaky", 4 * time.Second, 7 * time.Second}} {
			path := retry.path
			within(t, retry.max, "the second attempt at "+path, func() bool {
				s.call("GET", "/healthz", nil).want(200)
				return k.count(path) == 2
			})
			got := k.wait(path, 2)
			if pause := got[1].at.Sub(got[0].at); pause < retry.min {
				t.Errorf("%s was retried after %v, want %v or more", path, pause, retry.min)
			}
			for i := range 2 {
				header := got[i].header
				if header.Get("Webhook-Id") != receiptID || header.Get("Steward-Attempt") != strconv.Itoa(i) {
					t.Errorf("%s: attempt %d has the headers %v", path, i, header)
				}
			}
		}
		for _, id := range []string{flaky, busy} {
			var all []delivery
			waittest.True(t, "the end of the second attempt", func() bool {
				all = s.deliveries(h, "destinationId="+id)
				return len(all) == 2 && all[0].Status != "pending"
			})
			if all[0].Status != "success" || all[0].Retries != 1 || all[1].Status != "failed" {
				t.Errorf("attempts %+v", all)
			}
		}
	})
}
