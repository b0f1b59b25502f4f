package app

import (
	"maps"
	"syscall"

	"steward/internal/budget"
	"steward/internal/resource/embedkv"
)

// memory has the sizes of the pools of memory that clients can use, which are parts of what the process
// may use. A process with less than 128 MiB has the pools of one with 128 MiB.
type memory struct {
	ingest, deliveries, api, databases, threads, stores, tails int64
}

// memoryOf returns the sizes for a limit in bytes.
func memoryOf(limit int64) memory {
	limit = max(limit, 128<<20)
	return memory{
		ingest:     min(limit/8, 128<<20),
		deliveries: min(limit/8, 128<<20),
		api:        min(limit/8, 128<<20),
		databases:  min(limit/8, 128<<20),
		threads:    min(limit/16, 64<<20),
		stores:     min(limit/4, 8*embedkv.MaxRequest), // so that the largest value can be read at any time
		tails:      min(limit/16, 32<<20),
	}
}

// pools are the pools whose use is shown in the metrics, by their names there.
func (p *parts) pools() map[string]*budget.Pool {
	pools := map[string]*budget.Pool{
		"ingest": p.hooks.ingest.Memory,
		"api":    p.server.Memory,

		"thread_sockets":         p.server.Socket.Open,
		"thread_sockets_unknown": p.server.Socket.Unauthenticated,
		"thread_frames":          p.server.Socket.Frames,
		"thread_responses":       p.server.Socket.Responses,

		"tails":       p.hooks.tail.Connections,
		"tail_events": p.hooks.tail.Memory,
		"tail_feeds":  p.hooks.tail.Feeds,

		"kv_connections":         p.engines.stores.Connections,
		"kv_connections_unknown": p.engines.stores.Unauthenticated,
		"kv":                     p.engines.stores.Memory,
	}
	maps.Copy(pools, p.engines.databases.Pools())
	return pools
}

// descriptors returns how many files and sockets the process may have open.
func descriptors() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int64(min(limit.Cur, 1<<20))
}
