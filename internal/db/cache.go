package db

import (
	"sync"
	"time"
)

// Cache keeps what was read until something that it depends on has changed. Give its Forget to DB.Watch under the name that those changes
// bump: then it is emptied here before the change is acknowledged, and on other replicas within a second.
//
// What is loaded must be committed: load reads with a context that carries no transaction. The zero value is ready to use.
type Cache[K comparable, V any] struct {
	// Max bounds it; beyond that everything is forgotten and read again. Zero means 100,000.
	Max int

	mu    sync.RWMutex
	held  map[K]aged[V]
	round uint64
}

type aged[V any] struct {
	value V
	read  time.Time
}

// Get gives the value of a key, from memory or by load. An error of load comes back as it is, and is not kept.
func (c *Cache[K, V]) Get(key K, load func() (V, error)) (V, error) {
	return c.GetWithin(1<<63-1, key, load)
}

// GetWithin is Get for values of which a part may change without a bump: one that was read longer ago than age is read again.
func (c *Cache[K, V]) GetWithin(age time.Duration, key K, load func() (V, error)) (V, error) {
	c.mu.RLock()
	a, ok := c.held[key]
	round := c.round
	c.mu.RUnlock()
	if ok && time.Since(a.read) < age {
		return a.value, nil
	}
	read := time.Now()
	value, err := load()
	if err == nil {
		c.keep(key, aged[V]{value: value, read: read}, round)
	}
	return value, err
}

// keep stores a value unless the cache was emptied since it was read: it may be from before the change.
func (c *Cache[K, V]) keep(key K, a aged[V], round uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.round != round {
		return
	}
	limit := c.Max
	if limit == 0 {
		limit = 100_000
	}
	if c.held == nil || len(c.held) >= limit {
		c.held = map[K]aged[V]{}
	}
	c.held[key] = a
}

// Forget empties the cache.
func (c *Cache[K, V]) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = nil
	c.round++
}
