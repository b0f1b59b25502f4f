package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/waittest"
)

// taken are the receipts that were acknowledged, with their bodies.
type taken struct {
	mu  sync.Mutex
	all map[string]string
}

func (a *taken) add(receiptID, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all[receiptID] = body
}

func (a *taken) size() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.all)
}

// load sends events from several clients until stop is closed or the process is gone. Each event has a body of its own.
func (s *steward) load(h hook, name string, clients int, acked *taken, stop <-chan struct{}) *sync.WaitGroup {
	var group sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
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
				if !s.one(client, address, body, acked) {
					return
				}
			}
		})
	}
	return &group
}

// one sends an event, and notes it if it was acknowledged. It is false when the process is gone.
func (s *steward) one(client *http.Client, address, body string, acked *taken) bool {
	res, err := client.Post(address, "application/json", strings.NewReader(body))
	if err != nil {
		return false
	}
	a, err := read(s.t, res)
	if err == nil && a.status == 200 {
		acked.add(a.text("id"), body)
	}
	return err == nil
}

// TestWebhookKill kills the process again and again while it takes in and delivers. Every receipt that was acknowledged must be there
// afterwards, and reach its destination at least once. What the dead process had leased comes due 30 s after its end, so all installations
// are brought to that point before any is waited for.
func TestWebhookKill(t *testing.T) {
	t.Parallel()
	var checks []func()
	for _, name := range process.Databases {
		s, k, acked := begin(t, name), newSink(t), &taken{all: map[string]string{}}
		hooks := s.killRounds(k, acked)
		started := time.Now()
		checks = append(checks, func() {
			s.allArrive(k, hooks, acked)
			t.Logf("%s: all delivered %v after the last start", name, time.Since(started).Round(time.Millisecond))
			for path, h := range hooks {
				s.account(h, k, path, acked)
			}
			s.countsAreRows(hooks)
		})
	}
	for _, check := range append(checks, killReplica(t)) {
		check()
	}
}

// killRounds has four loads, each of which ends with a kill and a start. Each has a webhook of its own, since the turn at the last one's
// destination is still the dead process's.
func (s *steward) killRounds(k *sink, acked *taken) map[string]hook {
	s.t.Helper()
	hooks := map[string]hook{}
	for round := range 4 {
		path := fmt.Sprintf("/round-%d", round)
		h := s.hook(path)
		hooks[path] = h
		s.destination(h, k.URL+path, "concurrency", 1+9*(round%2)) // with 1, a backlog grows
		before := acked.size()
		clients := s.load(h, path, 16, acked, nil)
		k.await(path, 150+100*round)
		s.kill()
		clients.Wait()
		s.t.Logf("%s: %d acknowledged, %d delivered at the kill", path, acked.size()-before, k.count(path))
		s.run()
	}
	return hooks
}

// allArrive waits until every acknowledged receipt has reached the sink, and prints how often they did.
func (s *steward) allArrive(k *sink, hooks map[string]hook, acked *taken) {
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
	s.t.Logf("acked %d, delivered %d, duplicates %d", len(acked.all), len(arrived), duplicates)
}

// arrived counts the requests of each receipt.
func (k *sink) arrived(hooks map[string]hook) map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := map[string]int{}
	for path := range hooks {
		for _, a := range k.got[path] {
			n[a.header.Get("Webhook-Id")]++
		}
	}
	return n
}

// latest tells when the last request came.
func (k *sink) latest(hooks map[string]hook) (at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for path := range hooks {
		for _, a := range k.got[path] {
			if a.at.After(at) {
				at = a.at
			}
		}
	}
	return at
}

// account compares a webhook's rows with what was acknowledged and what arrived: each receipt has one delivery, which succeeded.
func (s *steward) account(h hook, k *sink, path string, acked *taken) {
	s.t.Helper()
	s.allEnd(map[string]hook{path: h})
	stored := map[string]bool{}
	for _, id := range s.pages("/webhook/receipt-list/"+h.ID+"?limit=1000", func() {}) {
		stored[id] = true
	}
	bodies := map[string]string{}
	for _, a := range k.await(path, 1) {
		bodies[a.header.Get("Webhook-Id")] = a.body
	}
	for receiptID, body := range acked.all {
		if !strings.Contains(body, `"`+path+"-") {
			continue
		}
		if !stored[receiptID] || bodies[receiptID] != body {
			s.t.Errorf("%s was acknowledged with %s; stored: %v, sent: %q", receiptID, body, stored[receiptID], bodies[receiptID])
		}
	}
	for receiptID := range bodies {
		if !stored[receiptID] {
			s.t.Errorf("%s was sent and is not stored", receiptID)
		}
	}
	if success := len(s.pages("/webhook/delivery-list/"+h.ID+"?limit=1000&status=success", func() {})); success != len(stored) {
		s.t.Errorf("%s: %d receipts, %d deliveries succeeded", path, len(stored), success)
	}
}

// countsAreRows compares analytics and totals with the rows that are there.
func (s *steward) countsAreRows(hooks map[string]hook) {
	s.t.Helper()
	var rows sum
	for path, h := range hooks {
		receipts := len(s.pages("/webhook/receipt-list/"+h.ID+"?limit=1000", func() {}))
		deliveries := len(s.pages("/webhook/delivery-list/"+h.ID+"?limit=1000", func() {}))
		if total := s.total("/webhook/receipt-list/" + h.ID); total != fmt.Sprint(receipts) {
			s.t.Errorf("%s: %s receipts are counted, %d are there", path, total, receipts)
		}
		if total := s.total("/webhook/delivery-list/" + h.ID); total != fmt.Sprint(deliveries) {
			s.t.Errorf("%s: %s deliveries are counted, %d are there", path, total, deliveries)
		}
		rows.Received += receipts
		rows.Delivered += len(s.pages("/webhook/delivery-list/"+h.ID+"?limit=1000&status=success", func() {}))
		rows.Failed += len(s.pages("/webhook/delivery-list/"+h.ID+"?limit=1000&status=failed", func() {}))
	}
	if counted := s.sums(""); counted != rows {
		s.t.Errorf("the counts are %+v, the rows %+v", counted, rows)
	}
}

// allEnd waits until nothing of these webhooks is pending.
func (s *steward) allEnd(hooks map[string]hook) {
	s.t.Helper()
	waittest.Until(s.t, "the end of every delivery", func() (pending int, done bool) {
		for _, h := range hooks {
			n, err := strconv.Atoi(s.total("/webhook/delivery-list/" + h.ID + "?status=pending"))
			s.must(err)
			pending += n
		}
		return pending, pending == 0
	})
}

// shared makes webhooks, and lets two replicas take in for them in turn.
func shared(one, two *steward, k *sink, acked *taken, stop chan struct{}) (hooks map[string]hook, clients []*sync.WaitGroup) {
	hooks = map[string]hook{}
	for i := range 8 {
		path := fmt.Sprintf("/shared-%d", i)
		h := one.hook(path)
		one.destination(h, k.URL+path)
		hooks[path] = h
		clients = append(clients, []*steward{one, two}[i%2].load(h, path, 2, acked, stop))
	}
	for path := range hooks {
		k.await(path, 100)
	}
	return hooks, clients
}

// TestWebhookReplicas has two processes on one database: both take in and both send, each delivery once.
func TestWebhookReplicas(t *testing.T) {
	t.Parallel()
	one := begin(t, "postgres")
	two := one.replica()
	k, acked, stop := newSink(t), &taken{all: map[string]string{}}, make(chan struct{})
	hooks, clients := shared(one, two, k, acked, stop)
	addresses := []map[string]bool{one.LocalAddresses(), two.LocalAddresses()} // idle connections do not stay open for ever
	close(stop)
	for _, c := range clients {
		c.Wait()
	}
	one.allArrive(k, hooks, acked)
	for path, h := range hooks {
		one.account(h, k, path, acked)
	}
	for receiptID, n := range k.arrived(hooks) {
		if n != 1 {
			t.Errorf("%s was sent %d times, though nobody crashed", receiptID, n)
		}
	}
	one.countsAreRows(hooks)
	sent := []int{k.sentFrom(addresses[0]), k.sentFrom(addresses[1])}
	t.Logf("%d requests came from one replica, %d from the other", sent[0], sent[1])
	if sent[0] == 0 || sent[1] == 0 {
		t.Errorf("one replica sent nothing: %v", sent)
	}
}

// killReplica kills one of two replicas in the middle of a load. One destination of the dead one refused every tenth request, so that there
// are retries to come. The check waits until the other has sent them, and all that the dead one had in hand.
func killReplica(t *testing.T) (check func()) {
	one := begin(t, "postgres")
	two := one.replica()
	k, acked, stop := newSink(t), &taken{all: map[string]string{}}, make(chan struct{})
	k.on("/shared-3", func(w http.ResponseWriter, _ *http.Request, n int) {
		select {
		case <-stop:
		default:
			if n%10 == 0 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}
	})
	hooks, clients := shared(one, two, k, acked, stop)
	close(stop)
	two.kill()
	killed := time.Now()
	for _, c := range clients {
		c.Wait()
	}
	return func() {
		one.allEnd(hooks)
		one.allArrive(k, hooks, acked)
		t.Logf("the other replica had sent all %v after the kill", k.latest(hooks).Sub(killed).Round(time.Millisecond))
		for path, h := range hooks {
			one.account(h, k, path, acked)
		}
		if one.total("/webhook/delivery-list/"+hooks["/shared-3"].ID+"?status=failed") == "0" {
			t.Errorf("no delivery was refused")
		}
		one.countsAreRows(hooks)
	}
}

// sentFrom counts the requests that came from one of these addresses.
func (k *sink) sentFrom(addresses map[string]bool) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, all := range k.got {
		for _, a := range all {
			if addresses[a.remote] {
				n++
			}
		}
	}
	return n
}
