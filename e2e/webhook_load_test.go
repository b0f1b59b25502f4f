package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"steward/e2e/installation"
	"steward/e2e/sink"
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

// sendLoad sends events, each with a body of its own, from several clients until stop is closed or the
// process is gone.
func sendLoad(s *installation.Steward, h installation.Hook, name string, clients int, acked *acknowledged, stop <-chan struct{}) *sync.WaitGroup {
	var group sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: installation.RequestTimeout}
	address := s.URL + h.Path
	for c := range clients {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				body := fmt.Sprintf(`{"event": "%s-%d-%d"}`, name, c, i)
				if !sendEvent(s, client, address, body, acked) {
					return
				}
			}
		})
	}
	return &group
}

// sendEvent sends an event and adds it to acked if it was acknowledged. It reports whether there was a
// response.
func sendEvent(s *installation.Steward, client *http.Client, address, body string, acked *acknowledged) bool {
	res, err := client.Post(address, "application/json", strings.NewReader(body))
	if err != nil {
		return false
	}
	r, err := installation.ReadResponse(s.T, res)
	if err == nil && r.Status == 200 {
		acked.add(r.Text("id"), body)
	}
	return err == nil
}

// waitArrived waits until every acknowledged receipt has reached the sink, and logs the number of
// duplicates.
func waitArrived(s *installation.Steward, k *sink.Sink, hooks map[string]installation.Hook, acked *acknowledged) {
	s.T.Helper()
	waittest.Until(s.T, "every acknowledged receipt at the sink", func() (missing int, done bool) {
		arrived := arrived(k, hooks)
		for receiptID := range acked.all {
			if arrived[receiptID] == 0 {
				missing++
			}
		}
		return missing, missing == 0
	})
	arrived, duplicates := arrived(k, hooks), 0
	for _, n := range arrived {
		duplicates += n - 1
	}
	s.T.Logf("%d acknowledged, %d delivered, %d duplicates", len(acked.all), len(arrived), duplicates)
}

// checkReceipts compares the rows of a webhook with what was acknowledged and what arrived at its path
// of the sink. Each receipt has one successful delivery.
func checkReceipts(s *installation.Steward, h installation.Hook, k *sink.Sink, path string, acked *acknowledged) {
	s.T.Helper()
	waitEnded(s, map[string]installation.Hook{path: h})
	stored := map[string]bool{}
	for _, id := range s.Pages("/webhook/receipt-list/"+h.ID+"?limit=1000", nil) {
		stored[id] = true
	}
	bodies := map[string]string{}
	for _, a := range k.Wait(path, 1) {
		bodies[a.Header.Get("Webhook-Id")] = a.Body
	}
	for receiptID, body := range acked.all {
		if !strings.Contains(body, `"`+path+"-") {
			continue
		}
		if !stored[receiptID] || bodies[receiptID] != body {
			s.T.Errorf("%s was acknowledged with %s; stored: %v, sent: %q",
				receiptID, body, stored[receiptID], bodies[receiptID])
		}
	}
	for receiptID := range bodies {
		if !stored[receiptID] {
			s.T.Errorf("%s was sent and is not stored", receiptID)
		}
	}
	if n := countDeliveries(s, h, "&status=success"); n != len(stored) {
		s.T.Errorf("%s: %d receipts, %d successful deliveries", path, len(stored), n)
	}
}

// countDeliveries counts the stored deliveries.
func countDeliveries(s *installation.Steward, h installation.Hook, filter string) int {
	s.T.Helper()
	return len(s.Pages("/webhook/delivery-list/"+h.ID+"?limit=1000"+filter, nil))
}

// checkCounts compares the totals of lists and the analytics with the stored rows.
func checkCounts(s *installation.Steward, hooks map[string]installation.Hook) {
	s.T.Helper()
	var rows totals
	for path, h := range hooks {
		receipts := len(s.Pages("/webhook/receipt-list/"+h.ID+"?limit=1000", nil))
		deliveries := countDeliveries(s, h, "")
		if total := s.Total("/webhook/receipt-list/" + h.ID); total != fmt.Sprint(receipts) {
			s.T.Errorf("%s: %s receipts are counted, %d are stored", path, total, receipts)
		}
		if total := s.Total("/webhook/delivery-list/" + h.ID); total != fmt.Sprint(deliveries) {
			s.T.Errorf("%s: %s deliveries are counted, %d are stored", path, total, deliveries)
		}
		rows.Received += receipts
		rows.Delivered += countDeliveries(s, h, "&status=success")
		rows.Failed += countDeliveries(s, h, "&status=failed")
	}
	if counted := getTotals(s, ""); counted != rows {
		s.T.Errorf("analytics %+v, rows %+v", counted, rows)
	}
}
