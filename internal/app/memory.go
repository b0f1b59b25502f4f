package app

import (
	"context"
	"os"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"
)

const (
	// gcPercent lets the heap grow between two collections: the live heap is usually a few megabytes,
	// and with Go's default the collector would run dozens of times a second under load.
	gcPercent = 400
	// memoryLimit is the soft limit above which the collector runs more often instead.
	memoryLimit = 240 << 20
)

// limitMemory has the garbage collector keep the process near memoryLimit, or a quarter above the live
// heap if that is more, so that it does not run all the time. GOGC and GOMEMLIMIT override it.
func limitMemory(ctx context.Context) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetMemoryLimit(memoryLimit)
	live := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			runtimemetrics.Read(live)
			debug.SetMemoryLimit(max(memoryLimit, int64(live[0].Value.Uint64())*5/4))
		}
	}
}
