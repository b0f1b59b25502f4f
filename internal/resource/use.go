package resource

import (
	"sync"
	"time"
)

// Use is what the clients of an embedded database or key-value store use, for metrics. Counts are those since the
// process started.
type Use struct {
	Org string
	ID  string
	// Operations is the number of statements or commands, and Refused that of those and of connections for which
	// there was no room.
	Operations int64
	Refused    int64
	// In and Out are the bytes of requests and responses.
	In  int64
	Out int64
	// Time is how long statements ran. Waiting for their turn, writers, the disk or the client is not included. It is
	// not counted for stores.
	Time time.Duration
	// Connections is the number of clients that are connected now: for databases, of requests and open transactions.
	Connections int64
	// Memory is the number of bytes of keys and values, and Disk that of files, while the resource is open.
	Memory int64
	Disk   int64
}

// MaxUsed is the number of databases, or stores, whose use is counted for each. The use of others is counted together,
// for an organization and a resource that are called Other.
const (
	MaxUsed = 1000
	Other   = "other"
)

// Used has counters for each resource that was used since the process started and is not deleted. It is safe for
// concurrent use.
type Used[C any] struct {
	// New returns the counters of a resource of an organization.
	New func(org, id string) *C

	mu  sync.Mutex
	all map[string]*C
}

// Of returns the counters of a resource of an organization, which keeps them until Forget.
func (u *Used[C]) Of(org, id string) *C {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c := u.all[id]; c != nil {
		return c
	}
	if len(u.all) >= MaxUsed {
		org, id = Other, Other
	}
	c := u.all[id]
	if c == nil {
		c = u.New(org, id)
		if u.all == nil {
			u.all = map[string]*C{}
		}
		u.all[id] = c
	}
	return c
}

// Forget removes the counters of a resource.
func (u *Used[C]) Forget(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.all, id)
}

// All returns all counters.
func (u *Used[C]) All() []*C {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := make([]*C, 0, len(u.all))
	for _, c := range u.all {
		all = append(all, c)
	}
	return all
}
