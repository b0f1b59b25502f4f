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

// CountCache caches for a minute that a filter matches more than MaxCounted rows, which takes as long
// to find out as counting MaxCounted rows. A filter is a text that no other one has. It is never
// invalidated: a list that shrinks is noticed a minute later. The zero value is ready to use.
type CountCache struct {
	mu    sync.Mutex
	large map[string]time.Time // until when
}

// IsLarge reports whether a filter is known to match more than MaxCounted rows.
func (c *CountCache) IsLarge(filter string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Before(c.large[filter])
}

// SetLarge caches that a filter matches more than MaxCounted rows.
func (c *CountCache) SetLarge(filter string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.large == nil || len(c.large) >= maxCounts {
		c.large = map[string]time.Time{}
	}
	c.large[filter] = now.Add(countTTL)
}
