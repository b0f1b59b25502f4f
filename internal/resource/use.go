package resource

import (
	"sync"
	"time"
)

// Use measures how clients use an embedded database or key-value store. Counters start with the process.
type Use struct {
	Org string
	ID  string
	// Operations counts statements or commands. Refused counts those, and connections, that were turned
	// away because there was no room.
	Operations int64
	Refused    int64
	// In and Out count bytes in requests and responses.
	In  int64
	Out int64
	// Time is how long statements ran, without waiting for their turn, writers, the disk or the client.
	// Stores do not count it.
	Time time.Duration
	// Connections is how many clients are connected now. For databases these are requests and open
	// transactions.
	Connections int64
	// Memory is the size of keys and values, and Disk the size of files, in bytes, while the resource is
	// open.
	Memory int64
	Disk   int64
}

// MaxUsed caps the databases, or stores, that have their own counters. All others are counted together,
// as resource Other in organization Other.
const (
	MaxUsed = 1000
	Other   = "other"
)

// Used has counters for each resource that was used since the process started and still exists. It is
// safe for concurrent use.
type Used[C any] struct {
	// New returns fresh counters.
	New func(org, id string) *C

	mu  sync.Mutex
	all map[string]*C
}

// Of returns a resource's counters, and keeps them until Forget.
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

// Forget removes a resource's counters.
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
