package redis

import "math/rand/v2"

// evictSamples is the number of random keys that we look at to find one that has not been used for
// long.
const evictSamples = 5

// evict deletes keys by the policy until their memory is within a limit, and reports whether it is.
func (s *Store) evict(limit int64) bool {
	for s.keys.memory > limit {
		if s.paused() {
			return false
		}
		e := s.victim()
		if e == nil {
			return false
		}
		key := e.key
		s.keys.remove(e)
		s.stats.evicted++
		s.log.effect("del", key)
		(&call{Store: s}).publishEvent(eventEvicted, "evicted", key)
		s.signalGone(key)
	}
	return true
}

// victim returns the next key to delete, or nil.
func (s *Store) victim() *entry {
	switch s.policy() {
	case VolatileTTL:
		e, _ := s.keys.expiring.Min()
		return e
	case AllKeysLRU:
		return s.leastUsed()
	default:
		return nil
	}
}

// leastUsed returns the least recently used among a few random keys, or nil if there is none.
func (s *Store) leastUsed() *entry {
	n := s.keys.entries.Len()
	var oldest *entry
	for range min(n, evictSamples) {
		e := s.keys.entries.At(rand.IntN(n))
		if oldest == nil || e.used < oldest.used {
			oldest = e
		}
	}
	return oldest
}
