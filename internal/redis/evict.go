package redis

import "math/rand/v2"

// evictSamples is how many keys are looked at to find one that was not used for long.
const evictSamples = 5

// evict deletes keys as the policy says until their memory is within a limit, and reports whether it is.
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

// victim returns the key that is to be deleted next, or nil.
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

// leastUsed returns the one of some random keys that was used least recently, or nil if there is none.
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
