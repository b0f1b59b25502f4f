package web

import (
	"sync"
	"time"
)

// MaxCounted is up to where a filtered list is counted; beyond it its Total is Unknown.
const MaxCounted = 10_000

const (
	crowdLife = time.Minute
	maxCrowds = 10_000
)

// Crowds remembers for a minute which filters match more than MaxCounted rows, since to learn that takes as long as to count them. Nobody
// empties it: when rows go away the total is told a minute later, never wrongly. The zero value is ready to use.
type Crowds[K comparable] struct {
	mu    sync.Mutex
	until map[K]time.Time
}

// Has tells whether a filter was found to match too many rows.
func (c *Crowds[K]) Has(filter K, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Before(c.until[filter])
}

// Note remembers that a filter matches too many rows.
func (c *Crowds[K]) Note(filter K, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until == nil || len(c.until) >= maxCrowds {
		c.until = map[K]time.Time{}
	}
	c.until[filter] = now.Add(crowdLife)
}
