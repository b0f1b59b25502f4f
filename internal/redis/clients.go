package redis

import (
	"cmp"
	"slices"
	"sync"
)

// Clients lists a store's clients. They stay in it while the store is closed. The zero value is empty,
// and nil stays empty.
type Clients struct {
	mu  sync.Mutex
	all map[*Client]bool
}

func (r *Clients) add(c *Client) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[*Client]bool{}
	}
	r.all[c] = true
}

func (r *Clients) remove(c *Client) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, c)
}

// list returns the clients ordered by ID.
func (r *Clients) list() []*Client {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*Client, 0, len(r.all))
	for c := range r.all {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *Client) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// others returns all clients of the call's store, including its own.
func (x *call) others() []*Client {
	x.client.mu.Lock()
	registry := x.client.access.Clients
	x.client.mu.Unlock()
	all := registry.list()
	if !slices.Contains(all, x.client) {
		all = append(all, x.client)
	}
	return all
}
