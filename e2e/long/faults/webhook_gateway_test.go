package faults

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

// TestGatewayKilled kills a process three times while events arrive at a webhook that verifies them, drops
// repeated ones and has a destination for each setting: a filter, a rate, retries of its own, and a pause
// until the end. Then every event is stored once and was delivered to exactly the destinations that want
// it, and all counts are those of the rows.
func TestGatewayKilled(t *testing.T) {
	t.Parallel()
	for _, run := range []struct {
		name, database string
		nodes          int
	}{{"sqlite", "sqlite", 1}, {"postgres", "postgres", 1}, {"two replicas", "postgres", 2}} {
		t.Run(run.name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(newCluster(t, newDatabase(t, run.database), run.nodes))
			g.start()
			for i := range 3 {
				g.more()
				killed := g.c.nodes[i%run.nodes]
				at := outage{from: time.Now()}
				killed.Kill()
				at.to = time.Now()
				g.killed = append(g.killed, at)
				if run.nodes > 1 {
					g.more()
				}
				g.c.restart(killed)
			}
			g.more()
			g.stop()
			g.check()
			report.Lock()
			defer report.Unlock()
			report.rows = append(report.rows, fmt.Sprintf("| gateway killed three times, %s | %d | %d | 0 | %d | |",
				run.name, len(g.acked), g.refused.Load(), g.repeated))
		})
	}
}

const (
	gatewaySecret = "whsec_of-the-sender"
	// gatewayRate is how many deliveries a second the destination with a rate gets.
	gatewayRate = 50
)

// gatewayPath is a destination: its config beside the URL, and which kinds of events it wants.
type gatewayPath struct {
	config object
	wants  func(kind string) bool
}

var everything = func(string) bool { return true }

// gatewayPaths are the destinations by their path at the sink.
var gatewayPaths = map[string]gatewayPath{
	"/all":  {object{}, everything},
	"/none": {object{"filter": object{"body": object{"kind": "never"}}}, func(string) bool { return false }},
	"/paid": {object{"filter": object{"body": object{"kind": "paid"}}}, func(kind string) bool { return kind == "paid" }},
	"/paced": {
		object{"rate": object{"limit": gatewayRate, "per": "second"}, "filter": object{"body": object{"kind": object{"$in": []string{"paid", "open"}}}}},
		func(kind string) bool { return kind != "void" },
	},
	"/flaky": {
		object{"retry": object{"type": "list", "delays_seconds": []int{1, 1, 1, 1, 1, 1, 1, 1}}, "filter": object{"body": object{"kind": object{"$ne": "void"}}}},
		func(kind string) bool { return kind != "void" },
	},
	"/paused": {object{"paused": true}, everything},
}

// outage is when a process was killed.
type outage struct{ from, to time.Time }

// gateway is a webhook with all settings, and the clients that send to it.
type gateway struct {
	*tenant
	c       *cluster
	s       *installation.Steward
	ids     map[string]string // destinations by path
	began   time.Time
	stop    func()
	refused atomic.Int64
	killed  []outage

	mu    sync.Mutex
	acked map[string]string // ids of receipts by the event's id

	repeated int // requests at the sink
}

func newGateway(c *cluster) *gateway {
	c.t.Helper()
	first := c.nodes[0]
	g := &gateway{
		tenant: newTenant(c, first.Key), c: c, s: &installation.Steward{Steward: first, T: c.t, Key: first.Key},
		ids: map[string]string{}, acked: map[string]string{}, began: time.Now(),
	}
	g.sink = sink.New(c.t)
	g.hook = g.s.NewHook("payments")
	g.s.Call("PUT", "/webhook/update/"+g.hook.ID, object{
		"verification": object{"type": "stripe", "secrets": []string{gatewaySecret}}, "dedupe": object{"by": "path", "path": "$.id"},
	}).Want(200)
	for path, d := range gatewayPaths {
		g.ids[path] = g.destination(path, d.config)
	}
	var failed sync.Map // receipts
	g.sink.Handle("/flaky", func(w http.ResponseWriter, r *http.Request, n int) {
		if _, again := failed.LoadOrStore(r.Header.Get("Webhook-Id"), true); !again && n%3 == 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	return g
}

func (g *gateway) destination(path string, config object) string {
	g.t.Helper()
	config = maps.Clone(config)
	config["url"] = g.sink.URL + path
	return g.s.Call("POST", "/webhook/destination-create/"+g.hook.ID, object{"type": "url", "config": config}).Want(201).Text("id")
}

// start has clients send until stop, which waits until their last events are acknowledged.
func (g *gateway) start() {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for client := range 4 {
		all.Go(func() {
			for n := 0; ctx.Err() == nil && !g.t.Failed(); n++ {
				g.event(client, n)
				sleep(ctx, pause)
			}
		})
	}
	g.stop = func() { cancel(); all.Wait() }
	g.t.Cleanup(g.stop)
}

// more waits until more events are acknowledged.
func (g *gateway) more() {
	g.t.Helper()
	count := func() int { g.mu.Lock(); defer g.mu.Unlock(); return len(g.acked) }
	want := count() + 6*moreWrites(g.c.t)
	waittest.Until(g.t, "acknowledged events", func() (int, bool) { n := count(); return n, n >= want || g.t.Failed() })
}

// event sends an event until it is acknowledged. Before some, somebody else sends one with their id; others are
// sent twice.
func (g *gateway) event(client, n int) {
	id, kind := fmt.Sprintf("evt_%d_%d", client, n), []string{"paid", "open", "void"}[n%3]
	body := fmt.Sprintf(`{"id":%q,"kind":%q}`, id, kind)
	if n%5 == 0 {
		if r, err := g.post(strings.Replace(body, kind, "forged", 1), "whsec_of-somebody"); err == nil && r.Status == http.StatusOK {
			g.t.Errorf("a forged event was accepted: %s", r.Body)
		}
	}
	receiptID, isDuplicate, wasRefused := g.acknowledged(body)
	if isDuplicate && !wasRefused {
		g.t.Errorf("%s was sent once, and taken for a repetition of %s", id, receiptID)
	}
	g.mu.Lock()
	g.acked[id] = receiptID
	g.mu.Unlock()
	if n%4 == 0 {
		if again, isDuplicate, _ := g.acknowledged(body); again != receiptID || !isDuplicate {
			g.t.Errorf("the repetition of %s, %s, got %s (Steward-Duplicate: %t)", id, receiptID, again, isDuplicate)
		}
	}
}

// acknowledged sends a signed body until there is a 200. wasRefused says that an earlier attempt may have been stored.
func (g *gateway) acknowledged(body string) (receiptID string, isDuplicate, wasRefused bool) {
	for !g.t.Failed() {
		r, err := g.post(body, gatewaySecret)
		if err == nil && r.Status == http.StatusOK {
			return r.Text("id"), r.Header.Get("Steward-Duplicate") == "true", wasRefused
		}
		if err == nil && r.Status < 500 {
			g.t.Errorf("status %d: %s", r.Status, r.Body)
		}
		wasRefused = true
		g.refused.Add(1)
		sleep(context.Background(), pause)
	}
	return "", false, true
}

// post sends a body as Stripe does.
func (g *gateway) post(body, secret string) (*installation.Response, error) {
	at := fmt.Sprint(time.Now().Unix())
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(at + "." + body))
	req, err := http.NewRequest("POST", g.c.api+g.hook.Path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Stripe-Signature", "t="+at+",v1="+hex.EncodeToString(mac.Sum(nil)))
	res, err := g.http.Do(req)
	if err != nil {
		return nil, err
	}
	return installation.ReadResponse(g.t, res)
}

// gatewayReceipt is a receipt in a list or a tail.
type gatewayReceipt struct {
	ID         string
	Payload    struct{ ID, Kind string }
	Filtered   int
	Deliveries struct{ Succeeded, Failing, Pending, Filtered int }
}

// gatewayDelivery is a delivery in a list.
type gatewayDelivery struct {
	Status        string
	Retries       int
	DestinationID string `json:"webhook_destination_id"`
	ReceiptID     string `json:"webhook_receipt_id"`
}

// wanted returns the paths of the destinations that want a kind of event.
func wanted(kind string) (paths []string) {
	for path, d := range gatewayPaths {
		if d.wants(kind) {
			paths = append(paths, path)
		}
	}
	return paths
}

// check resumes the paused destination, and compares what is stored and what has arrived with what was
// acknowledged.
func (g *gateway) check() {
	g.t.Helper()
	held := g.s.Call("GET", "/webhook/delivery-list/"+g.hook.ID+"?limit=1&status=pending&destinationId="+g.ids["/paused"], nil).Want(200)
	if total := held.Header.Get("X-Total-Count"); total != fmt.Sprint(len(g.acked)) || g.sink.Count("/paused") != 0 {
		g.t.Errorf("the paused destination has %s deliveries in its queue and got %d; %d events were acknowledged",
			total, g.sink.Count("/paused"), len(g.acked))
	}
	g.s.Call("PUT", "/webhook/destination-update/"+g.hook.ID+"/"+g.ids["/paused"],
		object{"config": object{"url": g.sink.URL + "/paused", "paused": false}}).Want(200)
	g.s.WaitEnded(map[string]installation.Hook{"": g.hook})

	receipts := g.checkReceipts()
	rows := g.checkDeliveries(receipts)
	rows.Received = len(receipts)
	for _, r := range receipts {
		rows.Filtered += r.Deliveries.Filtered
	}
	if counted := g.s.WebhookTotals("webhookId=" + g.hook.ID); counted != rows {
		g.t.Errorf("analytics %+v, rows %+v", counted, rows)
	}
	g.checkTail(receipts)
	g.checkArrivals(receipts)
	for query, want := range map[string]int{"": rows.Delivered, `, "to": "` + g.ids["/none"] + `"`: rows.Received} {
		dry := g.s.Call("POST", "/webhook/replay/"+g.hook.ID, `{"since": "2026-01-01T00:00:00Z", "dry_run": true`+query+`}`).Want(200)
		if dry.Get("total") != float64(want) {
			g.t.Errorf("a replay with %q would make %v deliveries, want %d", query, dry.Get("total"), want)
		}
	}
}

// checkReceipts requires that each acknowledged event is stored once, and nothing else is.
func (g *gateway) checkReceipts() map[string]gatewayReceipt {
	g.t.Helper()
	byID := map[string]gatewayReceipt{}
	for _, r := range pages[gatewayReceipt](g, "/webhook/receipt-list/") {
		byID[r.ID] = r
		if g.acked[r.Payload.ID] != r.ID {
			g.t.Errorf("%s is stored for %s, which was acknowledged as %q", r.ID, r.Payload.ID, g.acked[r.Payload.ID])
		}
		n := len(wanted(r.Payload.Kind))
		if d := r.Deliveries; d.Succeeded != n || d.Failing != 0 || d.Pending != 0 || d.Filtered != len(gatewayPaths)-n {
			g.t.Errorf("%s (%s): %+v, want %d deliveries", r.ID, r.Payload.Kind, d, n)
		}
	}
	if len(byID) != len(g.acked) {
		g.t.Errorf("%d receipts, %d events were acknowledged", len(byID), len(g.acked))
	}
	return byID
}

// checkDeliveries requires one chain of attempts for each receipt and destination that wants it, of which the last
// succeeded and only those to the flaky destination failed before. It returns the totals of the rows.
func (g *gateway) checkDeliveries(receipts map[string]gatewayReceipt) (rows installation.WebhookTotals) {
	g.t.Helper()
	paths := map[string]string{}
	for path, id := range g.ids {
		paths[id] = path
	}
	type chain struct{ receiptID, path string }
	chains := map[chain][]gatewayDelivery{}
	for _, d := range pages[gatewayDelivery](g, "/webhook/delivery-list/") {
		of := chain{d.ReceiptID, paths[d.DestinationID]}
		chains[of] = append(chains[of], d)
		if d.Status == "success" {
			rows.Delivered++
		} else {
			rows.Failed++
		}
	}
	want := 0
	for _, r := range receipts {
		for _, path := range wanted(r.Payload.Kind) {
			want++
			attempts := chains[chain{r.ID, path}]
			slices.SortFunc(attempts, func(a, b gatewayDelivery) int { return cmp.Compare(a.Retries, b.Retries) })
			for i, d := range attempts {
				isLast := i == len(attempts)-1
				if d.Retries != i || (d.Status == "success") != isLast || !isLast && path != "/flaky" {
					g.t.Errorf("%s to %s: %+v", r.ID, path, attempts)
				}
			}
			if len(attempts) == 0 {
				g.t.Errorf("%s has no delivery to %s", r.ID, path)
			}
		}
	}
	if len(chains) != want {
		g.t.Errorf("%d chains of deliveries, want %d", len(chains), want)
	}
	if rows.Failed == 0 {
		g.t.Error("no attempt has failed")
	}
	return rows
}

// checkTail requires that a tail shows each receipt once, and how many destinations did not want it.
func (g *gateway) checkTail(receipts map[string]gatewayReceipt) {
	g.t.Helper()
	seen := map[string]bool{}
	for _, e := range g.s.CaughtUp("/webhook/tail/" + g.hook.ID + "?follow=false&since=" + g.began.UTC().Add(-time.Minute).Format(time.RFC3339)) {
		r, found := receipts[e.Key()]
		if !found {
			continue
		}
		var shown gatewayReceipt
		g.must(json.Unmarshal(e.Data, &shown))
		if seen[r.ID] || shown.Filtered != r.Deliveries.Filtered {
			g.t.Errorf("the tail shows %s, again: %t", e.Data, seen[r.ID])
		}
		seen[r.ID] = true
	}
	if len(seen) != len(receipts) {
		g.t.Errorf("the tail shows %d receipts, want %d", len(seen), len(receipts))
	}
}

// checkArrivals requires that the destinations got what they want and nothing else, that an attempt was repeated only if
// a process was killed between, and that the rate was kept to.
func (g *gateway) checkArrivals(receipts map[string]gatewayReceipt) {
	g.t.Helper()
	for path, d := range gatewayPaths {
		arrived := g.sink.Requests(path)
		got := map[string]bool{}
		last := map[string]time.Time{} // by delivery
		for _, a := range arrived {
			got[a.Header.Get("Webhook-Id")] = true
			delivery := a.Header.Get("Steward-Delivery")
			before, again := last[delivery]
			last[delivery] = a.At
			if !again {
				continue
			}
			g.repeated++
			if !slices.ContainsFunc(g.killed, func(k outage) bool { return before.Before(k.to) && a.At.After(k.from) }) {
				g.t.Errorf("%s got %s twice, and no process was killed between", path, delivery)
			}
		}
		for id := range got {
			if r, found := receipts[id]; !found || !d.wants(r.Payload.Kind) {
				g.t.Errorf("%s got %s, which is %+v", path, id, r)
			}
		}
		for id, r := range receipts {
			if d.wants(r.Payload.Kind) && !got[id] {
				g.t.Errorf("%s did not get %s", path, id)
			}
		}
	}
	paced := g.sink.Requests("/paced")
	const late = 10 * time.Second // how much a request may be delayed on a busy machine
	took := paced[len(paced)-1].At.Sub(paced[0].At) + late
	if most := took.Seconds() * gatewayRate; float64(len(paced)) > most {
		g.t.Errorf("%d requests in %v at a rate of %d/s", len(paced), took, gatewayRate)
	}
}

// pages returns all entries of a list of the webhook.
func pages[T any](g *gateway, path string) (all []T) {
	g.t.Helper()
	for path += g.hook.ID + "?limit=1000"; path != ""; {
		r := g.s.Call("GET", path, nil).Want(200)
		var page []T
		r.Decode(&page)
		all = append(all, page...)
		path = r.Next()
	}
	return all
}
