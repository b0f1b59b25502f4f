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

// Crowds remembers for a minute how many rows filters match, above all which match more than MaxCounted, since to learn that takes as long
// as to count them. Nobody empties it: when rows go away that is told a minute later. The zero value is ready to use.
type Crowds[K comparable] struct {
	mu    sync.Mutex
	known map[K]crowd
}

type crowd struct {
	size  int64
	until time.Time
}

// Has tells whether a filter was found to match too many rows.
func (c *Crowds[K]) Has(filter K, now time.Time) bool {
	size, known := c.Size(filter, now)
	return known && size == Unknown
}

// Note remembers that a filter matches too many rows.
func (c *Crowds[K]) Note(filter K, now time.Time) { c.Keep(filter, Unknown, now) }

// Size gives how many rows a filter matches, or Unknown for too many, if that is remembered.
func (c *Crowds[K]) Size(filter K, now time.Time) (size int64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, known := c.known[filter]
	return found.size, known && now.Before(found.until)
}

// Keep remembers how many rows a filter matches. It is for filters that match no further rows from now on, and for Unknown.
func (c *Crowds[K]) Keep(filter K, size int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxCrowds {
		c.known = map[K]crowd{}
	}
	c.known[filter] = crowd{size, now.Add(crowdLife)}
}
