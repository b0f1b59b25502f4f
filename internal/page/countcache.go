package page

import (
	"sync"
	"time"
)

// MaxCounted limits how many of a filter's matches we count; a longer list has the Total Unknown.
const MaxCounted = 10_000

const (
	countTTL  = time.Minute
	maxCounts = 10_000 // entries; a full cache is emptied
)

// CountCache remembers for a minute that a filter matches more than MaxCounted rows, which takes as
// long to find out as counting MaxCounted rows. Each filter needs its own text. Nothing invalidates
// an entry: we notice a minute later that a list has shrunk. The zero value is ready to use.
type CountCache struct {
	mu    sync.Mutex
	large map[string]time.Time // filter → until when
}

// IsLarge reports whether a filter is known to match more than MaxCounted rows.
func (c *CountCache) IsLarge(filter string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Before(c.large[filter])
}

// SetLarge remembers that a filter matches more than MaxCounted rows.
func (c *CountCache) SetLarge(filter string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.large == nil || len(c.large) >= maxCounts {
		c.large = map[string]time.Time{}
	}
	c.large[filter] = now.Add(countTTL)
}
