package redis

import (
	"log/slog"
	"time"
)

// Options configures a store. Zero values mean the defaults.
type Options struct {
	// Log receives reports of failures.
	Log *slog.Logger
	// Memory limits keys and values, in bytes; 256 MiB by default. Policy decides what to do when it is
	// used up. The store's clients may choose another policy, and less memory.
	Memory int64
	Policy Policy
	// Charge accounts for keys, values and the log's buffers. It may be nil.
	Charge Memory
	// ScriptCharge accounts for the memory that scripts take. It may be nil.
	ScriptCharge Memory
	// Reclaim is called when Charge has no room for n bytes. It reports whether to try again; a store
	// that is being opened can wait for that. It may be nil.
	Reclaim func(n int64, opening bool) bool
	// Counters counts the store's work.
	Counters *Counters
	// Reply caps a reply's size in bytes. Queue and QueueBytes cap a transaction: its commands and
	// their total size. 0 means no limit.
	Reply, Queue, QueueBytes int
	// Writable returns an error in Redis's words while we must not write, such as when the disk is
	// almost full. Commands that only delete still run. It may be nil.
	Writable func() error
	// Enter waits for a processor slot; the function that it returns gives the slot back. The store
	// holds one while it runs a script, and during its turns for a while after a long one. It may be
	// nil.
	Enter func() (leave func())
	// ScriptTime limits a script's run; 5 seconds by default.
	ScriptTime time.Duration
	// Now returns the time.
	Now func() time.Time
}

// Policy says what to do when a store has no memory left. Its values are those that Redis's
// maxmemory-policy takes.
type Policy string

// The policies.
const (
	NoEviction  Policy = "noeviction"
	AllKeysLRU  Policy = "allkeys-lru"
	VolatileTTL Policy = "volatile-ttl"
)

const defaultMemory = 256 << 20

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	if o.Policy == "" {
		o.Policy = NoEviction
	}
	if o.ScriptTime == 0 {
		o.ScriptTime = defaultScriptTime
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Counters == nil {
		o.Counters = &Counters{}
	}
	return o
}
