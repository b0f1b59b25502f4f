package replicas

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

func TestReplicasSendEachDeliveryOnce(t *testing.T) {
	t.Parallel()
	r := installation.LoadReplicas(t, nil)
	fromOne, fromTwo := r.One.LocalAddresses(), r.Two.LocalAddresses() // before connections are idle for long
	r.StopLoad()
	r.One.WaitArrived(r.Sink, r.Hooks, r.Acked)
	for path, h := range r.Hooks {
		r.One.CheckReceipts(h, r.Sink, path, r.Acked)
	}
	for receiptID, n := range installation.Arrived(r.Sink, r.Hooks) {
		if n != 1 {
			t.Errorf("%s was sent %d times", receiptID, n)
		}
	}
	r.One.CheckCounts(r.Hooks)
	one, two := r.Sink.SentFrom(fromOne), r.Sink.SentFrom(fromTwo)
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
