package oidc

import "sync"

// maxCached bounds each map of the cache. A map that is full is emptied.
const maxCached = 100_000

// clientUser is a user of a client.
type clientUser struct{ clientID, userID string }

// userState is what a user is to a client: the epoch of the consent, 0 if there is none, and whether the
// user is a member of the client's organization.
type userState struct {
	consent int64
	member  bool
}

// cache holds what was allowed when it was read. A positive answer is used, since every transaction
// that takes a right away empties the cache. A negative one is read again, so that a right which
// was just given on another replica is not refused here.
type cache struct {
	mu      sync.RWMutex
	clients map[string]*Registered
	users   map[clientUser]userState
	// generation counts how often the cache was emptied. What was read in an earlier generation must not
	// be stored.
	generation uint64
}

func (c *cache) client(clientID string) *Registered {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.clients[clientID]
}

func (c *cache) user(u clientUser) userState {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.users[u]
}

func (c *cache) current() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.generation
}

func (c *cache) storeClient(r *Registered, generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.generation != generation {
		return
	}
	if c.clients == nil || len(c.clients) >= maxCached {
		c.clients = map[string]*Registered{}
	}
	c.clients[r.ID] = r
}

func (c *cache) storeUser(u clientUser, s userState, generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.generation != generation {
		return
	}
	if c.users == nil || len(c.users) >= maxCached {
		c.users = map[clientUser]userState{}
	}
	c.users[u] = s
}

func (c *cache) empty() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients = nil
	c.users = nil
	c.generation++
}
