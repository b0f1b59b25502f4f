package redis

import "math/rand/v2"

// A store charges its memory in steps of memoryStep, so that few commands have to charge. It returns
// surplus above memorySlack.
const (
	memoryStep  = 64 << 10
	memorySlack = 2 * memoryStep
)

// ErrLoading is the reply while the store is being opened. Clients know it from Redis, and try again.
const ErrLoading replyError = "LOADING Redis is loading the dataset in memory"

// errNoMemory is the reply to commands that need more memory while Charge has none. ErrNoMemory says
// the same to a caller who opens a store.
const (
	errNoMemory replyError = "OOM command not allowed when the stores of the organization, or of the server, use all their memory"
	ErrNoMemory replyError = "OOM the store cannot be opened while the stores of the organization, or of the server, use all their memory, try again"
)

// wantedMemory returns the amount to charge: for keys, values and the log's buffers, but no more than
// the options' limit. We do not charge the excess that a single command adds, and nothing can be added
// before it is gone.
func (s *Store) wantedMemory() int64 {
	steps := (s.keys.memory+s.log.buffered())/memoryStep + 1
	return min(steps*memoryStep, s.options.Memory)
}

// chargeMemory charges the memory in use. It reports whether there was room.
func (s *Store) chargeMemory(opening bool) bool {
	if s.options.Charge == nil {
		return true
	}
	more := s.wantedMemory() - s.charged
	if more <= 0 {
		return true
	}
	for !s.options.Charge.Take(more) {
		if s.options.Reclaim == nil || !s.options.Reclaim(more, opening) {
			return false
		}
	}
	s.charged += more
	return true
}

// settleMemory adjusts the charge to the memory in use at the end of a turn, as far as there is room.
func (s *Store) settleMemory() {
	if s.options.Charge == nil {
		return
	}
	s.chargeNames(s.names.size)
	more := s.wantedMemory() - s.charged
	switch {
	case more > 0 && s.options.Charge.Take(more):
		s.charged += more
	case more < -memorySlack:
		s.options.Charge.Return(-more)
		s.charged += more
	}
}

// releaseMemory returns the whole charge.
func (s *Store) releaseMemory() {
	if s.options.Charge != nil {
		s.options.Charge.Return(s.charged + s.names.charged)
	}
	s.charged = 0
	s.names.charged = 0
}

// admitMemory returns an error if there is no memory for more keys and values, even after evicting
// keys.
func (s *Store) admitMemory() error {
	if limit := s.memoryLimit(); s.keys.memory > limit && !s.evict(limit) {
		return errOOM
	}
	if s.keys.memory > s.charged && !s.chargeMemory(false) && !s.evict(s.charged) {
		return errNoMemory
	}
	return nil
}

// admitGrowth returns an error if there is no memory for n more bytes, which a client may ask for in a
// short request. It leaves less than a MiB to the next command's check.
func (x *call) admitGrowth(n int64) error {
	if n < 1<<20 || x.replaying {
		return nil
	}
	if x.keys.memory+n > x.memoryLimit() {
		return errOOM
	}
	x.keys.memory += n
	charged := x.chargeMemory(false)
	x.keys.memory -= n
	if !charged {
		return errNoMemory
	}
	return nil
}

// admitMore returns an error if a script or transaction that has begun to write must not run a command
// with these flags, although it should not end half way.
func (s *Store) admitMore(f flags) error {
	switch {
	case f.has(flagWrite) && len(s.log.frame) > longFrame:
		return errTooMuch
	case f.has(flagDenyOOM) && s.keys.memory/2 > s.options.Memory:
		return errOOM
	}
	return nil
}

// names is the memory for what a store remembers for its clients: the keys that they have read or
// watch, their subscriptions, and the prefixes of their broadcasts.
type names struct {
	// size estimates the bytes, and charged is the amount charged for them.
	size, charged int64
}

const (
	// nameOverhead estimates the memory for one client's key, channel, pattern or prefix without its
	// bytes.
	nameOverhead = 320
	// namesShare divides a store's memory: names may take one such part on top.
	namesShare = 8
)

const errNames replyError = "ERR the clients of the store watch and subscribe to more than there is memory for"

func sizeOfNames(names []string) int64 {
	size := nameOverhead * int64(len(names))
	for _, name := range names {
		size += int64(len(name))
	}
	return size
}

// reserve takes memory for a client's names, and reports whether there was room. Keys that clients
// have read make room for others: we tell the clients that the keys have changed.
func (s *Store) reserve(names ...string) bool {
	size := sizeOfNames(names)
	limit := s.options.Memory / namesShare
	if size > limit {
		return false
	}
	for s.names.size+size > limit && len(s.tracked.readers) > 0 {
		for key := range s.tracked.readers {
			s.invalidateRead(key, nil)
			break
		}
	}
	if s.names.size+size > limit || !s.chargeNames(s.names.size+size) {
		return false
	}
	s.names.size += size
	return true
}

// release returns the memory for names that a client does not use any more.
func (s *Store) release(names ...string) { s.names.size -= sizeOfNames(names) }

// chargeNames charges memory for names. It reports whether there was room.
func (s *Store) chargeNames(size int64) bool {
	more := (size+memoryStep-1)/memoryStep*memoryStep - s.names.charged
	switch {
	case s.options.Charge == nil || -memorySlack <= more && more <= 0:
		return true
	case more < 0:
		s.options.Charge.Return(-more)
	case !s.options.Charge.Take(more):
		return false
	}
	s.names.charged += more
	return true
}

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
