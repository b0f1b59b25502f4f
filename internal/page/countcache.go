package page

import (
	"sync"
	"time"
)

// MaxCounted is the number up to which the matches of a filter are counted; the Total of a longer
// list is Unknown.
const MaxCounted = 10_000

const (
	countTTL  = time.Minute
	maxCounts = 10_000 // entries; a full cache is emptied
)

// CountCache caches for a minute how many rows a filter matches, above all that it matches more
// than MaxCounted, which takes as long to find out as counting MaxCounted rows. It is never
// invalidated: a list that shrinks is noticed a minute later. The zero value is ready to use.
type CountCache[K comparable] struct {
	mu      sync.Mutex
	entries map[K]countEntry
}

type countEntry struct {
	count   int64
	expires time.Time
}

// Has reports whether a filter is known to match more than MaxCounted rows.
func (c *CountCache[K]) Has(filter K, now time.Time) bool {
	count, ok := c.Size(filter, now)
	return ok && count == Unknown
}

// Note caches that a filter matches more than MaxCounted rows.
func (c *CountCache[K]) Note(filter K, now time.Time) { c.Keep(filter, Unknown, now) }

// Size returns the cached number of rows that a filter matches, which is Unknown if they are more
// than MaxCounted.
func (c *CountCache[K]) Size(filter K, now time.Time) (count int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.entries[filter]
	return entry.count, ok && now.Before(entry.expires)
}

// Keep caches the number of rows that a filter matches. It is meant for Unknown, and for filters
// that no new row can match.
func (c *CountCache[K]) Keep(filter K, count int64, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil || len(c.entries) >= maxCounts {
		c.entries = map[K]countEntry{}
	}
	c.entries[filter] = countEntry{count: count, expires: now.Add(countTTL)}
}
