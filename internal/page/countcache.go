package page

import (
	"sync"
	"time"
)

// MaxCounted is up to where a filtered list is counted; beyond it its Total is Unknown.
const MaxCounted = 10_000

const (
	countLife = time.Minute
	maxCounts = 10_000
)

// CountCache caches for a minute how many rows a filter matches, above all that it matches more than MaxCounted, since finding
// that out takes as long as counting them. It is never invalidated: a list that shrinks is noticed a minute later. The zero value
// is ready to use.
type CountCache[K comparable] struct {
	mu    sync.Mutex
	known map[K]cachedCount
}

type cachedCount struct {
	size  int64
	until time.Time
}

// Has tells whether a filter was found to match too many rows.
func (c *CountCache[K]) Has(filter K, now time.Time) bool {
	size, known := c.Size(filter, now)
	return known && size == Unknown
}

// Note remembers that a filter matches too many rows.
func (c *CountCache[K]) Note(filter K, now time.Time) { c.Keep(filter, Unknown, now) }

// Size gives how many rows a filter matches, or Unknown for too many, if that is remembered.
func (c *CountCache[K]) Size(filter K, now time.Time) (size int64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, known := c.known[filter]
	return found.size, known && now.Before(found.until)
}

// Keep remembers how many rows a filter matches. It is for filters that match no further rows from now on, and for Unknown.
func (c *CountCache[K]) Keep(filter K, size int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxCounts {
		c.known = map[K]cachedCount{}
	}
	c.known[filter] = cachedCount{size, now.Add(countLife)}
}
