package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"steward/internal/waittest"
)

// acknowledged are the receipts that were acknowledged.
type acknowledged struct {
	mu  sync.Mutex
	all map[string]string // bodies by receipt
}

func newAcknowledged() *acknowledged { return &acknowledged{all: map[string]string{}} }

func (a *acknowledged) add(receiptID, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[receiptID] = body
}

func (a *acknowledged) size() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.all)
}

// load sends events, each with a body of its own, from several clients until stop is closed or the
// process is gone.
func (s *steward) load(h hook, name string, clients int, acked *acknowledged, stop <-chan struct{}) *sync.WaitGroup {
	var group sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: requestTimeout}
	address := s.URL + h.path
	for c := range clients {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				body := fmt.Sprintf(`{"event": "%s-%d-%d"}`, name, c, i)
				if !s.sendEvent(client, address, body, acked) {
					return
				}
			}
		})
	}
	return &group
}

// sendEvent sends an event and adds it to acked if it was acknowledged. It reports whether there was a
// response.
func (s *steward) sendEvent(client *http.Client, address, body string, acked *acknowledged) bool {
	res, err := client.Post(address, "application/json", strings.NewReader(body))
	if err != nil {
		return false
	}
	r, err := read(s.t, res)
	if err == nil && r.status == 200 {
		acked.add(r.text("id"), body)
	}
	return err == nil
}

// waitArrived waits until every acknowledged receipt has reached the sink, and logs the number of
// duplicates.
func (s *steward) waitArrived(k *sink, hooks map[string]hook, acked *acknowledged) {
	s.t.Helper()
	waittest.Until(s.t, "every acknowledged receipt at the sink", func() (missing int, done bool) {
		arrived := k.arrived(hooks)
		for receiptID := range acked.all {
			if arrived[receiptID] == 0 {
				missing++
			}
		}
		return missing, missing == 0
	})
	arrived, duplicates := k.arrived(hooks), 0
	for _, n := range arrived {
		duplicates += n - 1
	}
	s.t.Logf("%d acknowledged, %d delivered, %d duplicates", len(acked.all), len(arrived), duplicates)
}

// checkReceipts compares the rows of a webhook with what was acknowledged and what arrived at its path
// of the sink. Each receipt has one successful delivery.
func (s *steward) checkReceipts(h hook, k *sink, path string, acked *acknowledged) {
	s.t.Helper()
	s.waitEnded(map[string]hook{path: h})
	stored := map[string]bool{}
	for _, id := range s.pages("/webhook/receipt-list/"+h.ID+"?limit=1000", nil) {
		stored[id] = true
	}
	bodies := map[string]string{}
	for _, a := range k.wait(path, 1) {
		bodies[a.header.Get("Webhook-Id")] = a.body
	}
	for receiptID, body := range acked.all {
		if !strings.Contains(body, `"`+path+"-") {
			continue
		}
		if !stored[receiptID] || bodies[receiptID] != body {
			s.t.Errorf("%s was acknowledged with %s; stored: %v, sent: %q",
				receiptID, body, stored[receiptID], bodies[receiptID])
		}
	}
	for receiptID := range bodies {
		if !stored[receiptID] {
			s.t.Errorf("%s was sent and is not stored", receiptID)
		}
	}
	if n := s.countDeliveries(h, "&status=success"); n != len(stored) {
		s.t.Errorf("%s: %d receipts, %d successful deliveries", path, len(stored), n)
	}
}

// countDeliveries counts the stored deliveries.
func (s *steward) countDeliveries(h hook, filter string) int {
	s.t.Helper()
	return len(s.pages("/webhook/delivery-list/"+h.ID+"?limit=1000"+filter, nil))
}

// checkCounts compares the totals of lists and the analytics with the stored rows.
func (s *steward) checkCounts(hooks map[string]hook) {
	s.t.Helper()
	var rows totals
	for path, h := range hooks {
		receipts := len(s.pages("/webhook/receipt-list/"+h.ID+"?limit=1000", nil))
		deliveries := s.countDeliveries(h, "")
		if total := s.total("/webhook/receipt-list/" + h.ID); total != fmt.Sprint(receipts) {
			s.t.Errorf("%s: %s receipts are counted, %d are stored", path, total, receipts)
		}
		if total := s.total("/webhook/delivery-list/" + h.ID); total != fmt.Sprint(deliveries) {
			s.t.Errorf("%s: %s deliveries are counted, %d are stored", path, total, deliveries)
		}
		rows.Received += receipts
		rows.Delivered += s.countDeliveries(h, "&status=success")
		rows.Failed += s.countDeliveries(h, "&status=failed")
	}
	if counted := s.totals(""); counted != rows {
		s.t.Errorf("analytics %+v, rows %+v", counted, rows)
	}
}
