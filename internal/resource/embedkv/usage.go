package embedkv

import (
	"sync/atomic"

	"steward/internal/redis"
	"steward/internal/resource"
)

// use counts what a store's clients consume.
type use struct {
	org, id string
	// store counts commands and refusals by the store. refused counts connections and requests that never
	// reached it.
	store                         redis.Counters
	refused, in, out, connections atomic.Int64
}

func newUse(org, id string) *use { return &use{org: org, id: id} }

// setUse makes the session count its use, and its connection, in u. A nil u ends that.
func (s *session) setUse(u *use) {
	if u != nil {
		u.connections.Add(1)
	}
	if before := s.use.Swap(u); before != nil {
		before.connections.Add(-1)
	}
}

// Usage returns what stores' clients have used, for metrics.
func (e *Engine) Usage() []resource.Use {
	var all []resource.Use
	for _, u := range e.usage.All() {
		all = append(all, resource.Use{
			Org: u.org, ID: u.id, Operations: u.store.Commands.Load(), Refused: u.refused.Load() + u.store.Refused.Load(),
			In: u.in.Load(), Out: u.out.Load(), Connections: u.connections.Load(),
			Memory: u.store.Memory.Load(), Disk: u.store.Disk.Load(),
		})
	}
	return all
}
