package installation

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"steward/e2e/sink"
	"steward/internal/waittest"
)

// Arrived counts the requests for each receipt of these webhooks. Hooks are keyed by path.
func Arrived(k *sink.Sink, hooks map[string]Hook) map[string]int {
	n := map[string]int{}
	for path := range hooks {
		for _, a := range k.Requests(path) {
			n[a.Header.Get("Webhook-Id")]++
		}
	}
	return n
}

// WebhookTotals is the summary in the analytics.
type WebhookTotals struct {
	Received  int `json:"total_received"`
	Delivered int `json:"total_delivered"`
	Failed    int `json:"total_failed"`
	Filtered  int `json:"total_filtered"`
}

// WebhookTotals returns the summary in the analytics for a query.
func (s *Steward) WebhookTotals(query string) WebhookTotals {
	s.T.Helper()
	var a struct{ Summary WebhookTotals }
	s.Call("GET", "/webhook/analytics/org?"+query, nil).Want(200).Decode(&a)
	return a.Summary
}

// Acknowledged collects the receipts that the server acknowledged.
type Acknowledged struct {
	mu  sync.Mutex
	All map[string]string // bodies by receipt
}

// NewAcknowledged returns an empty set.
func NewAcknowledged() *Acknowledged { return &Acknowledged{All: map[string]string{}} }

// Add adds a receipt.
func (a *Acknowledged) Add(receiptID, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.All[receiptID] = body
}

// Size returns the number of receipts.
func (a *Acknowledged) Size() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.All)
}

// SendLoad sends events, each with a different body, from several clients until stop closes or the
// process is gone.
func (s *Steward) SendLoad(h Hook, name string, clients int, acked *Acknowledged, stop <-chan struct{}) *sync.WaitGroup {
	var group sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: RequestTimeout}
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

// sendEvent sends an event and adds it to acked if the server acknowledged it. It reports whether there
// was a response.
func sendEvent(s *Steward, client *http.Client, address, body string, acked *Acknowledged) bool {
	res, err := client.Post(address, "application/json", strings.NewReader(body))
	if err != nil {
		return false
	}
	r, err := ReadResponse(s.T, res)
	if err == nil && r.Status == 200 {
		acked.Add(r.Text("id"), body)
	}
	return err == nil
}

// WaitArrived waits until every acknowledged receipt has reached the sink, and logs the number of
// duplicates.
func (s *Steward) WaitArrived(k *sink.Sink, hooks map[string]Hook, acked *Acknowledged) {
	s.T.Helper()
	waittest.Until(s.T, "every acknowledged receipt at the sink", func() (missing int, done bool) {
		arrived := Arrived(k, hooks)
		for receiptID := range acked.All {
			if arrived[receiptID] == 0 {
				missing++
			}
		}
		return missing, missing == 0
	})
	arrived, duplicates := Arrived(k, hooks), 0
	for _, n := range arrived {
		duplicates += n - 1
	}
	s.T.Logf("%d acknowledged, %d delivered, %d duplicates", len(acked.All), len(arrived), duplicates)
}

// CheckReceipts compares a webhook's rows with the acknowledged receipts and with the requests at its
// path on the sink. Each receipt must have one successful delivery.
func (s *Steward) CheckReceipts(h Hook, k *sink.Sink, path string, acked *Acknowledged) {
	s.T.Helper()
	s.WaitEnded(map[string]Hook{path: h})
	stored := map[string]bool{}
	for _, id := range s.Pages("/webhook/receipt-list/"+h.ID+"?limit=1000", nil) {
		stored[id] = true
	}
	bodies := map[string]string{}
	for _, a := range k.Wait(path, 1) {
		bodies[a.Header.Get("Webhook-Id")] = a.Body
	}
	for receiptID, body := range acked.All {
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
	if n := s.CountDeliveries(h, "&status=success"); n != len(stored) {
		s.T.Errorf("%s: %d receipts, %d successful deliveries", path, len(stored), n)
	}
}

// CountDeliveries counts the stored deliveries.
func (s *Steward) CountDeliveries(h Hook, filter string) int {
	s.T.Helper()
	return len(s.Pages("/webhook/delivery-list/"+h.ID+"?limit=1000"+filter, nil))
}

// CheckCounts compares the totals of lists and the analytics with the stored rows.
func (s *Steward) CheckCounts(hooks map[string]Hook) {
	s.T.Helper()
	var rows WebhookTotals
	for path, h := range hooks {
		receipts := len(s.Pages("/webhook/receipt-list/"+h.ID+"?limit=1000", nil))
		deliveries := s.CountDeliveries(h, "")
		if total := s.Total("/webhook/receipt-list/" + h.ID); total != fmt.Sprint(receipts) {
			s.T.Errorf("%s: %s receipts are counted, %d are stored", path, total, receipts)
		}
		if total := s.Total("/webhook/delivery-list/" + h.ID); total != fmt.Sprint(deliveries) {
			s.T.Errorf("%s: %s deliveries are counted, %d are stored", path, total, deliveries)
		}
		rows.Received += receipts
		rows.Delivered += s.CountDeliveries(h, "&status=success")
		rows.Failed += s.CountDeliveries(h, "&status=failed")
	}
	if counted := s.WebhookTotals(""); counted != rows {
		s.T.Errorf("analytics %+v, rows %+v", counted, rows)
	}
}

// LoadedReplicas are two processes on one database. Both accept events and send to the same sink.
type LoadedReplicas struct {
	One, Two *Steward
	Sink     *sink.Sink
	Hooks    map[string]Hook // by path on the sink
	Acked    *Acknowledged
	Stop     chan struct{} // closing it ends the load
	Clients  []*sync.WaitGroup
}

// LoadReplicas sends events for eight webhooks until some have arrived for each. Half of the webhooks use
// one replica, half the other. The sink responds with 200, except at the paths in handlers.
func LoadReplicas(t *testing.T, handlers map[string]sink.Handler) *LoadedReplicas {
	t.Helper()
	one := Start(t, "postgres")
	r := &LoadedReplicas{
		One: one, Two: one.Replica(), Sink: sink.New(t),
		Hooks: map[string]Hook{}, Acked: NewAcknowledged(), Stop: make(chan struct{}),
	}
	for path, respond := range handlers {
		r.Sink.Handle(path, respond)
	}
	for i := range 8 {
		path := fmt.Sprintf("/shared-%d", i)
		h := one.NewHook(path)
		one.NewDestination(h, r.Sink.URL+path)
		r.Hooks[path] = h
		r.Clients = append(r.Clients, []*Steward{r.One, r.Two}[i%2].SendLoad(h, path, 2, r.Acked, r.Stop))
	}
	for path := range r.Hooks {
		r.Sink.Wait(path, 100)
	}
	return r
}

// StopLoad ends the load.
func (r *LoadedReplicas) StopLoad() {
	close(r.Stop)
	for _, c := range r.Clients {
		c.Wait()
	}
}
