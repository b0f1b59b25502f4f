package faults

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"

	"steward/e2e/process"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

// gate is how the sink of a webhook responds.
type gate struct {
	sync.RWMutex // locked while requests are held back

	mu       sync.Mutex // of the fields below
	failing  bool       // every tenth request
	failures int
}

func (g *gate) respond(w http.ResponseWriter, _ *http.Request, n int) {
	g.RLock()
	defer g.RUnlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failing && n%10 == 0 {
		g.failures++
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// hold holds back requests until release is called, or the test ends.
func (g *gate) hold(t testing.TB) (release func()) {
	g.Lock()
	release = sync.OnceFunc(g.Unlock)
	t.Cleanup(release)
	return release
}

// fail has every tenth request fail, or none.
func (g *gate) fail(failing bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failing = failing
}

func (g *gate) failed() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failures
}

// addHook creates the tenant's webhook, with a destination at a sink.
func (u *tenant) addHook() {
	ctx := context.Background()
	u.sink, u.gate = sink.New(u.t), &gate{}
	u.sink.Handle("/", u.gate.respond)
	u.must(u.call(ctx, "POST", u.cluster.api+"/webhook/create", object{"name": "orders"}, &u.hook))
	u.must(u.call(ctx, "POST", u.cluster.api+"/webhook/destination-create/"+u.hook.ID,
		object{"type": "url", "config": object{"url": u.sink.URL + "/"}}, nil))
}

// arrived returns how often each receipt has reached the sink.
func (u *tenant) arrived() map[string]int {
	arrived := map[string]int{}
	for _, a := range u.sink.Requests("/") {
		arrived[a.Header.Get("Webhook-Id")]++
	}
	return arrived
}

// webhooks sends events to a webhook whose destination is a sink.
func (u *tenant) webhooks() *area {
	u.addHook()
	return &area{
		name: "webhooks", once: true,
		write: func(ctx context.Context, n int) error {
			var receipt struct{ ID string }
			err := u.call(ctx, "POST", u.hook.URL, object{"n": n}, &receipt)
			if err == nil {
				u.mu.Lock()
				defer u.mu.Unlock()
				u.acked[n] = receipt.ID
			}
			return err
		},
		missing: func(ctx context.Context, acked []int) ([]int, error) {
			bodies := map[string]string{}
			for _, a := range u.sink.Requests("/") {
				bodies[a.Header.Get("Webhook-Id")] = a.Body
			}
			stored, err := u.receipts(ctx)
			if err != nil {
				return nil, err
			}
			u.mu.Lock()
			defer u.mu.Unlock()
			return missingOf(acked, func(n int) (bool, error) {
				id, body := u.acked[n], fmt.Sprintf(`{"n":%d}`, n)
				return stored[id] == body && bodies[id] == body, nil
			})
		},
		repeated: func(ctx context.Context) (extra int, err error) {
			stored, err := u.receipts(ctx)
			for id, n := range u.arrived() {
				extra += n - 1
				if err == nil && stored[id] == "" {
					u.t.Errorf("%s was sent and is not stored", id)
				}
			}
			return extra - u.gate.failed(), err
		},
		inconsistent: u.checkDeliveries,
	}
}

// receipts returns the bodies of the stored receipts.
func (u *tenant) receipts(ctx context.Context) (map[string]string, error) {
	stored := map[string]string{}
	list, err := u.list(ctx, "/webhook/receipt-list/"+u.hook.ID+"?limit=1000")
	for _, receipt := range list {
		stored[receipt.ID] = string(receipt.Payload)
	}
	return stored, err
}

// checkDeliveries returns an error unless each receipt has one successful delivery, no delivery waits,
// and the analytics are those of the rows.
func (u *tenant) checkDeliveries(ctx context.Context) error {
	receipts, err := u.receipts(ctx)
	if err != nil {
		return err
	}
	deliveries, err := u.list(ctx, "/webhook/delivery-list/"+u.hook.ID+"?limit=1000")
	if err != nil {
		return err
	}
	type totals struct {
		Received  int `json:"total_received"`
		Delivered int `json:"total_delivered"`
		Failed    int `json:"total_failed"`
	}
	var analytics struct{ Summary totals }
	if err := u.call(ctx, "GET", u.cluster.api+"/webhook/analytics/org", nil, &analytics); err != nil {
		return err
	}
	n := map[string]int{}
	for _, d := range deliveries {
		n[d.Status]++
	}
	rows := totals{len(receipts), n["success"], n["failed"]}
	if n["success"] != len(receipts) || n["success"]+n["failed"] != len(deliveries) || analytics.Summary != rows {
		return fmt.Errorf("%d receipts, deliveries %v, analytics %+v", len(receipts), n, analytics.Summary)
	}
	return nil
}

// delivered waits until every event that is acknowledged by now has reached its sink. Until the lease of a dead
// process expires, its destinations wait.
func (w *workload) delivered() {
	w.t.Helper()
	for _, u := range w.tenants {
		u.mu.Lock()
		acked := slices.Collect(maps.Values(u.acked))
		u.mu.Unlock()
		waittest.Until(w.t, "deliveries to "+u.orgID, func() (missing int, done bool) {
			arrived := u.arrived()
			for _, id := range acked {
				if arrived[id] == 0 {
					missing++
				}
			}
			return missing, missing == 0
		})
	}
}

// sender returns the process that sends the deliveries of the tenant's webhook.
func (u *tenant) sender() (sender *process.Steward) {
	u.t.Helper()
	waittest.True(u.t, "the process that sends deliveries", func() bool {
		most := 0
		for _, s := range u.cluster.nodes {
			if n := u.sink.SentFrom(s.LocalAddresses()); n > most {
				most, sender = n, s
			}
		}
		return sender != nil
	})
	return sender
}

// wantDeliveries adds a webhook to a tenant that has none, and waits for the delivery of each of its events.
func (u *tenant) wantDeliveries() {
	u.t.Helper()
	u.addHook()
	for i := range 20 {
		u.must(u.call(context.Background(), "POST", u.hook.URL, object{"n": i}, nil))
		u.sink.Wait("/", i+1)
	}
}
