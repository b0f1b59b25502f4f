package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// replicas are two processes on one database, which both accept events and send to one sink.
type replicas struct {
	one, two *steward
	k        *sink
	hooks    map[string]hook // by path at the sink
	acked    *acknowledged
	stop     chan struct{} // ends the load when it is closed
	clients  []*sync.WaitGroup
}

// loadReplicas sends events for eight webhooks, for each to one of the replicas, until some of each
// have arrived. Paths of the sink respond with 200, or as handlers say.
func loadReplicas(t *testing.T, handlers map[string]handler) *replicas {
	t.Helper()
	one := start(t, "postgres")
	r := &replicas{
		one: one, two: one.replica(), k: newSink(t),
		hooks: map[string]hook{}, acked: newAcknowledged(), stop: make(chan struct{}),
	}
	for path, respond := range handlers {
		r.k.handle(path, respond)
	}
	for i := range 8 {
		path := fmt.Sprintf("/shared-%d", i)
		h := one.hook(path)
		one.destination(h, r.k.URL+path)
		r.hooks[path] = h
		r.clients = append(r.clients, []*steward{r.one, r.two}[i%2].load(h, path, 2, r.acked, r.stop))
	}
	for path := range r.hooks {
		r.k.wait(path, 100)
	}
	return r
}

// stopLoad ends the load.
func (r *replicas) stopLoad() {
	close(r.stop)
	for _, c := range r.clients {
		c.Wait()
	}
}

func TestReplicasSendEachDeliveryOnce(t *testing.T) {
	t.Parallel()
	r := loadReplicas(t, nil)
	fromOne, fromTwo := r.one.LocalAddresses(), r.two.LocalAddresses() // before connections are idle for long
	r.stopLoad()
	r.one.waitArrived(r.k, r.hooks, r.acked)
	for path, h := range r.hooks {
		r.one.checkReceipts(h, r.k, path, r.acked)
	}
	for receiptID, n := range r.k.arrived(r.hooks) {
		if n != 1 {
			t.Errorf("%s was sent %d times", receiptID, n)
		}
	}
	r.one.checkCounts(r.hooks)
	one, two := r.k.sentFrom(fromOne), r.k.sentFrom(fromTwo)
	t.Logf("%d requests came from one replica, %d from the other", one, two)
	if one == 0 || two == 0 {
		t.Error("one replica sent nothing")
	}
}

// TestDeliveriesOfReplicasAreInOrder sends events to two replicas in turn while the first delivery is
// held back, so that a backlog of both grows.
func TestDeliveriesOfReplicasAreInOrder(t *testing.T) {
	t.Parallel()
	one := start(t, "postgres")
	replicas := []*steward{one, one.replica()}
	k, h := newSink(t), one.hook("orders")
	sent := make(chan struct{})
	k.handle("/order", func(_ http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			select {
			case <-sent:
			case <-r.Context().Done():
			}
		}
	})
	one.destination(h, k.URL+"/order", "concurrency", 1, "timeout_seconds", 60)
	var want []string
	for i := range 20 {
		want = append(want, replicas[i%2].ingest(h, fmt.Sprint(i)))
		time.Sleep(120 * time.Millisecond) // receipts of different replicas within 100 ms may swap
	}
	close(sent)
	var got, bodies []string
	for _, a := range k.wait("/order", len(want)) {
		got = append(got, a.header.Get("Webhook-Id"))
		bodies = append(bodies, a.body)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the order is %v", bodies)
	}
}
