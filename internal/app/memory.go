package app

import (
	"context"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"syscall"
	"time"

	"steward/internal/budget"
	"steward/internal/resource/embedkv"
)

const (
	// gcPercent lets the heap grow between two collections: the live heap is usually a few
	// megabytes, and with Go's default the collector would run dozens of times a second under load.
	gcPercent = 400
	// softLimit is the memory above which the collector runs more often instead.
	softLimit = 240 << 20
	// limitInterval is how often the limit follows the heap. Opening a key-value store can add
	// hundreds of megabytes in a second, and the collector never rests while the limit is below the
	// live heap.
	limitInterval = 100 * time.Millisecond
)

// limitMemory returns a loop that makes the garbage collector keep the process near softLimit,
// within six tenths of its allowed memory. GOGC and GOMEMLIMIT override it.
//
// The keys in open stores come on top, with room for twice as much garbage: they stay for long, and
// a collector with little spare room walks through all of them many times a second. Everything else
// that is live gets only a quarter, since requests hold it, and an attack could grow it.
func limitMemory(keys *budget.Pool) func(ctx context.Context) {
	return func(ctx context.Context) {
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(gcPercent)
		}
		if os.Getenv("GOMEMLIMIT") != "" {
			return
		}
		allowed := budget.MemoryLimit()
		live := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
		tick := time.NewTicker(limitInterval)
		defer tick.Stop()
		for {
			runtimemetrics.Read(live)
			stored := keys.Usage()
			debug.SetMemoryLimit(memoryLimit(int64(live[0].Value.Uint64()), stored.Common+stored.Reserve, allowed))
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}
}

// memoryLimit returns the limit for a process with a live heap, which includes the stores' keys.
func memoryLimit(live, keys, allowed int64) int64 {
	most := allowed / 10 * 6 // SQLite and the kernel need the rest
	return min(max(softLimit+3*keys, live/4*5), most)
}

// poolSizes has the sizes of the memory pools that clients can use, as shares of the process's
// allowance. A process with less than 128 MiB gets the pools of one with 128 MiB.
type poolSizes struct {
	ingest, deliveries, api, databases, threads, keyValue, keys, scripts, tails, messages int64
}

// poolSizesWithin returns the sizes for a process that may use limit bytes.
func poolSizesWithin(limit int64) poolSizes {
	limit = max(limit, 128<<20)
	return poolSizes{
		ingest:     min(limit/8, 128<<20),
		deliveries: min(limit/8, 128<<20),
		api:        min(limit/8, 128<<20),
		databases:  min(limit/8, 128<<20),
		threads:    min(limit/16, 64<<20),
		keyValue:   min(limit/4, 8*embedkv.MaxRequest), // the largest value must always be readable
		keys:       limit / 4,
		scripts:    min(limit/8, embedkv.ScriptMemory),
		tails:      min(limit/16, 32<<20),
		messages:   min(limit/4, 512<<20),
	}
}

// descriptors returns how many files and sockets the process may have open.
func descriptors() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int64(min(limit.Cur, 1<<20))
}
