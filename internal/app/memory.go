package app

import (
	"context"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"

	"steward/internal/budget"
)

const (
	// gcPercent lets the heap grow between two collections: the live heap is usually a few megabytes,
	// and with Go's default the collector would run dozens of times a second under load.
	gcPercent = 400
	// softLimit is the memory above which the collector runs more often instead.
	softLimit = 240 << 20
)

// limitMemory has the garbage collector keep the process near softLimit, or a quarter above the live
// heap if that is more, so that it does not run all the time, but within six tenths of what the
// process may use. GOGC and GOMEMLIMIT override it.
func limitMemory(ctx context.Context) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	most := budget.MemoryLimit() / 10 * 6 // SQLite and the kernel need the rest
	debug.SetMemoryLimit(min(softLimit, most))
	live := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			runtimemetrics.Read(live)
			debug.SetMemoryLimit(min(max(softLimit, int64(live[0].Value.Uint64())*5/4), most))
		}
	}
}
