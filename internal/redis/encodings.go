package redis

// configuration is what CONFIG SET changes, until the store is closed or, as for keptSettings, for good.
type configuration struct {
	encodings
	// busyReplyThreshold is how many milliseconds a script runs before others are told.
	busyReplyThreshold int
	keptSettings
}

// keptSettings are settings that are kept in the log.
type keptSettings struct {
	// maxMemory is the limit of memory if it is less than that of the options; 0 if there is none.
	maxMemory int64
	// maxMemoryPolicy is the policy in place of that of the options, or "".
	maxMemoryPolicy Policy
	// events are the classes of events that are published.
	events eventClasses
}

// effects returns the effects that make settings these.
func (k keptSettings) effects() [][]string {
	var effects [][]string
	if k.maxMemory != 0 {
		effects = append(effects, []string{"config", "set", "maxmemory", formatInt(k.maxMemory)})
	}
	if k.maxMemoryPolicy != "" {
		effects = append(effects, []string{"config", "set", "maxmemory-policy", string(k.maxMemoryPolicy)})
	}
	if k.events != 0 {
		effects = append(effects, []string{"config", "set", "notify-keyspace-events", k.events.String()})
	}
	return effects
}

// storeMemory is about what a store takes in memory beside its keys and values. It counts for the limit that a
// client sets, so that there is one that nothing fits into, as in Redis.
const storeMemory = 4 << 10

// memoryLimit returns the maximum number of bytes of keys and values.
func (s *Store) memoryLimit() int64 {
	if s.limits.maxMemory == 0 {
		return s.options.Memory
	}
	return min(s.limits.maxMemory-storeMemory, s.options.Memory)
}

// maxMemory returns the limit of memory that clients are told.
func (s *Store) maxMemory() int64 {
	if s.limits.maxMemory == 0 {
		return s.options.Memory
	}
	return min(s.limits.maxMemory, s.options.Memory)
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
	setMaxListpackEntries, setMaxListpackValue   int
	zsetMaxListpackEntries, zsetMaxListpackValue int
	listMaxListpackSize, listCompressDepth       int
	streamNodeMaxBytes, streamNodeMaxEntries     int
	hllSparseMaxBytes                            int
}

func defaultEncodings() encodings {
	return encodings{
		hashMaxListpackEntries: 512, hashMaxListpackValue: 64,
		setMaxIntsetEntries:   512,
		setMaxListpackEntries: 128, setMaxListpackValue: 64,
		zsetMaxListpackEntries: 128, zsetMaxListpackValue: 64,
		listMaxListpackSize: -2,
		streamNodeMaxBytes:  4096, streamNodeMaxEntries: 100,
		hllSparseMaxBytes: 3000,
	}
}
