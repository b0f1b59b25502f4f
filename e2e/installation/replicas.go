package installation

import (
	"fmt"
	"sync"
	"testing"

	"steward/e2e/sink"
)

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
