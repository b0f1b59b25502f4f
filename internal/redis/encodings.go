package redis

// configuration is what CONFIG SET changes, until the store is closed.
type configuration struct {
	encodings
	// maxMemory is the limit of memory if it is less than that of the options; 0 if there is none.
	maxMemory int64
	// maxMemoryPolicy is the policy in place of that of the options, or "".
	maxMemoryPolicy Policy
	// events are the classes of events that are published.
	events eventClasses
}

// storeMemory is about what a store takes in memory beside its keys and values. It counts for the limit that a
// client sets, so that there is one that nothing fits into, as in Redis.
const storeMemory = 4 << 10

// memoryLimit returns the maximum number of bytes of keys and values.
func (s *Store) memoryLimit() int64 {
	if s.limits.maxMemory == 0 {
		return s.options.Memory
	}
	return s.limits.maxMemory - storeMemory
}

// maxMemory returns the limit of memory that clients are told.
func (s *Store) maxMemory() int64 {
	if s.limits.maxMemory == 0 {
		return s.options.Memory
	}
	return s.limits.maxMemory
}

// policy returns what happens when there is no memory left.
func (s *Store) policy() Policy {
	if s.limits.maxMemoryPolicy == "" {
		return s.options.Policy
	}
	return s.limits.maxMemoryPolicy
}

// encodings are the sizes up to which small values have their own encoding, as Redis's settings of these
// names say. Here they decide what OBJECT ENCODING returns, and up to which size a hash, set or sorted set
// keeps the order of insertion.
type encodings struct {
	hashMaxListpackEntries, hashMaxListpackValue int
	setMaxIntsetEntries                          int
	zsetMaxListpackEntries, zsetMaxListpackValue int
	listMaxListpackSize, listCompressDepth       int
	streamNodeMaxBytes, streamNodeMaxEntries     int
	hllSparseMaxBytes                            int
}

func defaultEncodings() encodings {
	return encodings{
		hashMaxListpackEntries: 512, hashMaxListpackValue: 64,
		setMaxIntsetEntries:    512,
		zsetMaxListpackEntries: 128, zsetMaxListpackValue: 64,
		listMaxListpackSize: -2,
		streamNodeMaxBytes:  4096, streamNodeMaxEntries: 100,
		hllSparseMaxBytes: 3000,
	}
}
