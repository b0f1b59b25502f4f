package app

import "steward/internal/budget"

// memory has the sizes of the pools of memory that clients can use, which are parts of what the process
// may use. A process with less than 128 MiB has the pools of one with 128 MiB.
type memory struct {
	ingest, api int64
}

// memoryOf returns the sizes for a limit in bytes.
func memoryOf(limit int64) memory {
	limit = max(limit, 128<<20)
	return memory{
		ingest: min(limit/8, 128<<20),
		api:    min(limit/8, 128<<20),
	}
}

// pools are the pools whose use is shown in the metrics, by their names there.
func (p *parts) pools() map[string]*budget.Pool {
	return map[string]*budget.Pool{
		"ingest": p.hooks.ingest.Memory,
		"api":    p.server.Memory,
	}
}
