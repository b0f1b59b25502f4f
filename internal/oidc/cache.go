package oidc

import "sync"

// maxCached caps each map in the cache. We empty a map when it is full.
const maxCached = 100_000

type clientUser struct{ clientID, userID string }

// userState is a user's relation to a client: the consent's epoch, or 0 without a consent, and whether
// the user belongs to the client's organization.
type userState struct {
	consent int64
	member  bool
}

// cache remembers rights as we last read them. We trust a positive answer, because every transaction
// that takes a right away empties the cache. We read again before a negative one, so that a right just
// given on another replica is not refused here.
type cache struct {
	mu      sync.RWMutex
	clients map[string]*Registered
	users   map[clientUser]userState
	// generation increments whenever the cache is emptied. Never store a value read in an earlier
	// generation.
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
