package oauth

import (
	"maps"
	"net/netip"
	"sync"
	"time"
)

// maxBuckets bounds the memory that a Throttle uses.
const maxBuckets = 100_000

// Limit allows Burst tries for a key at once, and one more after each Every.
type Limit struct {
	Key   string
	Burst float64
	Every time.Duration
}

// Throttle limits repeated tries with a token bucket for each key. It counts in its own process only, so
// the limits of several replicas add up. The zero value is ready to use.
type Throttle struct {
	mu      sync.Mutex
	buckets map[string]bucket
}

// bucket holds the tries that were left at a point in time.
type bucket struct {
	Limit
	tokens float64
	at     time.Time
}

// refilled returns the bucket at a later time.
func (b bucket) refilled(now time.Time) bucket {
	b.tokens = min(b.Burst, b.tokens+float64(now.Sub(b.at))/float64(b.Every))
	b.at = now
	return b
}

// Take counts a try against all limits and returns 0. If one limit is exhausted, it counts nothing and
// returns the time until the next try.
func (l *Throttle) Take(now time.Time, limits ...Limit) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	buckets := make([]bucket, len(limits))
	for i, limit := range limits {
		buckets[i] = l.bucket(now, limit)
		if tokens := buckets[i].tokens; tokens < 1 {
			wait = max(wait, time.Duration((1-tokens)*float64(limit.Every)))
		}
	}
	if wait > 0 {
		return wait
	}
	l.evict(now)
	for _, b := range buckets {
		b.tokens--
		l.buckets[b.Key] = b
	}
	return 0
}

// Refund undoes Take, for a try that succeeded.
func (l *Throttle) Refund(limits ...Limit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, limit := range limits {
		if b, ok := l.buckets[limit.Key]; ok {
			b.tokens = min(b.Burst, b.tokens+1)
			l.buckets[limit.Key] = b
		}
	}
}

func (l *Throttle) bucket(now time.Time, limit Limit) bucket {
	if b, ok := l.buckets[limit.Key]; ok {
		return b.refilled(now)
	}
	return bucket{Limit: limit, tokens: limit.Burst, at: now}
}

// evict makes room for new buckets. It drops the ones that are more than half full, so that the ones that
// hold somebody back stay. If that is not enough, it drops all. It takes tens of thousands of keys with
// many tries each to get there.
func (l *Throttle) evict(now time.Time) {
	if l.buckets != nil && len(l.buckets) < maxBuckets {
		return
	}
	maps.DeleteFunc(l.buckets, func(_ string, b bucket) bool { return b.refilled(now).tokens > b.Burst/2 })
	if l.buckets == nil || len(l.buckets) > maxBuckets/2 {
		l.buckets = map[string]bucket{}
	}
}

// Network returns the part of an address that we count as one: an IPv4 address, or an IPv6 address's /64
// network, since a host that has one address in it has them all.
func Network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Unmap().Is4() {
		return address
	}
	network, err := a.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return network.String()
}
