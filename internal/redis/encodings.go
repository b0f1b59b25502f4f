package redis

// configuration holds the settings that CONFIG SET changes. Changes last until the store is closed, or
// for good in keptSettings.
type configuration struct {
	encodings
	// busyReplyThreshold is the number of milliseconds that a script may run before other clients get a
	// BUSY error.
	busyReplyThreshold int
	keptSettings
}

// keptSettings are the settings that the log keeps.
type keptSettings struct {
	// maxMemory limits memory further than the options do; 0 if it does not.
	maxMemory int64
	// maxMemoryPolicy replaces the options' policy, unless it is "".
	maxMemoryPolicy Policy
	// events has the event classes to publish.
	events eventClasses
	// cluster reports whether the store answers cluster clients.
	cluster bool
}

// effects returns the effects that restore these settings.
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
	if k.cluster {
		effects = append(effects, []string{"config", "set", "cluster-enabled", "yes"})
	}
	return effects
}

// storeMemory estimates a store's memory without its keys and values. It counts towards a limit that a
// client sets, so that some limits are too small for any key, as in Redis.
const storeMemory = 4 << 10

// memoryLimit returns the limit for keys and values in bytes.
func (s *Store) memoryLimit() int64 {
	if s.limits.maxMemory == 0 {
		return s.options.Memory
	}
	return min(s.limits.maxMemory-storeMemory, s.options.Memory)
}

// maxMemory returns the memory limit that we show to clients.
func (s *Store) maxMemory() int64 {
	if s.limits.maxMemory == 0 {
		return s.options.Memory
	}
	return min(s.limits.maxMemory, s.options.Memory)
}

// policy returns the eviction policy in force.
func (s *Store) policy() Policy {
	if s.limits.maxMemoryPolicy == "" {
		return s.options.Policy
	}
	return s.limits.maxMemoryPolicy
}

// encodings are the limits up to which small values have a special encoding, named like Redis's
// settings. Here they decide what OBJECT ENCODING returns, and how large a hash, set or sorted set may
// grow before it loses its insertion order.
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
