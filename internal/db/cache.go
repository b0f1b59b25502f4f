package db

import (
	"cmp"
	"sync"
	"time"
)

// Cache keeps values in memory until something that they depend on changes. Pass its Forget to
// DB.Watch with the name that those changes invalidate: then the cache empties in this process
// before the change is acknowledged, and on other replicas within 500 ms.
//
// load must read committed values: its context carries no transaction. The zero value is ready to
// use.
type Cache[K comparable, V any] struct {
	// Max is the number of entries at which we empty the cache. Zero means 100,000.
	Max int

	mu      sync.RWMutex
	entries map[K]entry[V]
	// generation counts the calls to Forget.
	generation uint64
}

type entry[V any] struct {
	value  V
	loaded time.Time
}

// Get returns a key's value, from memory or from load. It returns load's error unchanged and does
// not keep it.
func (c *Cache[K, V]) Get(key K, load func() (V, error)) (V, error) {
	return c.GetWithin(1<<63-1, key, load)
}

// GetWithin is Get for values that may partly change without an invalidation: it loads a value again
// once that is older than age.
func (c *Cache[K, V]) GetWithin(age time.Duration, key K, load func() (V, error)) (V, error) {
	c.mu.RLock()
	cached, ok := c.entries[key]
	generation := c.generation
	c.mu.RUnlock()
	if ok && time.Since(cached.loaded) < age {
		return cached.value, nil
	}
	began := time.Now()
	value, err := load()
	if err != nil {
		return value, err
	}
	c.store(key, entry[V]{value: value, loaded: began}, generation)
	return value, nil
}

// store keeps an entry, unless the cache was emptied while it was loaded: it may predate the change.
func (c *Cache[K, V]) store(key K, e entry[V], generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.generation != generation {
		return
	}
	limit := cmp.Or(c.Max, 100_000)
	if c.entries == nil || len(c.entries) >= limit {
		c.entries = map[K]entry[V]{}
	}
	c.entries[key] = e
}

// Forget empties the cache.
func (c *Cache[K, V]) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = nil
	c.generation++
}
