package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

// replicas are two processes on one database, which both accept events and send to one sink.
type replicas struct {
	one, two *installation.Steward
	k        *sink.Sink
	hooks    map[string]installation.Hook // by path at the sink
	acked    *acknowledged
	stop     chan struct{} // ends the load when it is closed
	clients  []*sync.WaitGroup
}

// loadReplicas sends events for eight webhooks, for each to one of the replicas, until some of each
// have arrived. Paths of the sink respond with 200, or as handlers say.
func loadReplicas(t *testing.T, handlers map[string]sink.Handler) *replicas {
	t.Helper()
	one := installation.Start(t, "postgres")
	r := &replicas{
		one: one, two: one.Replica(), k: sink.New(t),
		hooks: map[string]installation.Hook{}, acked: newAcknowledged(), stop: make(chan struct{}),
	}
	for path, respond := range handlers {
		r.k.Handle(path, respond)
	}
	for i := range 8 {
		path := fmt.Sprintf("/shared-%d", i)
		h := one.NewHook(path)
		one.NewDestination(h, r.k.URL+path)
		r.hooks[path] = h
		r.clients = append(r.clients, sendLoad([]*installation.Steward{r.one, r.two}[i%2], h, path, 2, r.acked, r.stop))
	}
	for path := range r.hooks {
		r.k.Wait(path, 100)
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
	waitArrived(r.one, r.k, r.hooks, r.acked)
	for path, h := range r.hooks {
		checkReceipts(r.one, h, r.k, path, r.acked)
	}
	for receiptID, n := range arrived(r.k, r.hooks) {
		if n != 1 {
			t.Errorf("%s was sent %d times", receiptID, n)
		}
	}
	checkCounts(r.one, r.hooks)
	one, two := r.k.SentFrom(fromOne), r.k.SentFrom(fromTwo)
	t.Logf("%d requests came from one replica, %d from the other", one, two)
	if one == 0 || two == 0 {
		t.Error("one replica sent nothing")
	}
}

// TestDeliveriesOfReplicasAreInOrder sends events to two replicas in turn while the first delivery is
// held back, so that a backlog of both grows.
func TestDeliveriesOfReplicasAreInOrder(t *testing.T) {
	t.Parallel()
	one := installation.Start(t, "postgres")
	replicas := []*installation.Steward{one, one.Replica()}
	k, h := sink.New(t), one.NewHook("orders")
	sent := make(chan struct{})
	k.Handle("/order", func(_ http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			select {
			case <-sent:
			case <-r.Context().Done():
			}
		}
	})
	one.NewDestination(h, k.URL+"/order", "concurrency", 1, "timeout_seconds", 60)
	var want []string
	for i := range 20 {
		want = append(want, replicas[i%2].Ingest(h, fmt.Sprint(i)))
		time.Sleep(120 * time.Millisecond) // receipts of different replicas within 100 ms may swap
	}
	close(sent)
	var got, bodies []string
	for _, a := range k.Wait("/order", len(want)) {
		got = append(got, a.Header.Get("Webhook-Id"))
		bodies = append(bodies, a.Body)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the order is %v", bodies)
	}
}

// TestFrozenReplicaDelaysNoOther freezes one of two replicas in the middle of a load. The other one
// goes on with its own destinations, and takes over those of the frozen one when their leases expire.
func TestFrozenReplicaDelaysNoOther(t *testing.T) {
	t.Parallel()
	r := loadReplicas(t, nil)
	s := r.two.Cmd.Process
	r.one.Must(s.Signal(syscall.SIGSTOP))
	frozen := time.Now()
	h := r.one.NewHook("later")
	r.one.NewDestination(h, r.k.URL+"/later")
	for i := range 20 {
		r.one.Ingest(h, fmt.Sprint(i))
		r.k.Wait("/later", i+1)
	}
	t.Logf("a new destination got 20 deliveries within %v", time.Since(frozen).Round(time.Millisecond))
	close(r.stop)
	for i := 0; i < len(r.clients); i += 2 { // the clients of the frozen one wait for it
		r.clients[i].Wait()
	}
	waitArrived(r.one, r.k, r.hooks, r.acked)
	t.Logf("the other replica had sent all %v after the freeze", latest(r.k, r.hooks).Sub(frozen).Round(time.Millisecond))
	r.one.Must(s.Signal(syscall.SIGCONT))
	for _, c := range r.clients {
		c.Wait()
	}
	waitArrived(r.one, r.k, r.hooks, r.acked)
	for path, h := range r.hooks {
		checkReceipts(r.one, h, r.k, path, r.acked)
	}
	r.hooks["/later"] = h
	waitEnded(r.one, r.hooks)
	checkCounts(r.one, r.hooks)
}
