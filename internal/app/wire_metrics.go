package app

import (
	"context"
	"maps"
	"math"
	"time"

	"steward/internal/app/metrics"
	"steward/internal/budget"
)

// scrapeTimeout bounds what a scrape reads from the database.
const scrapeTimeout = 2 * time.Second

// measure connects the slices with the metrics. It is called before anything is served.
func (p *parts) measure(m *metrics.Metrics) {
	p.signIn.Issued = m.TokenIssued
	p.signIn.Refused = m.TokenRefused
	p.hooks.ingest.Accepted = m.IngestAccepted
	p.hooks.ingest.Refused = m.IngestRefused
	p.hooks.scheduler.Delivered = m.Delivered
	stats := p.hooks.scheduler.Stats
	m.InFlightBytes(func() float64 { return float64(stats().Bytes) })
	m.InFlightSockets(func() float64 { return float64(stats().Sockets) })
	m.OldestDueAge(func() float64 { return stats().OldestDue.Seconds() })
	m.OpenSockets(func() float64 { return float64(p.server.Socket.OpenSockets()) })
	m.OpenTails(func() float64 { return float64(p.hooks.tail.Open()) })
	m.QueueDepth(fromDatabase(p.hooks.store.QueueDepth))
	for name, pool := range p.pools() {
		m.Pool(name, pool.Usage)
	}
	p.storage.server.Done = m.ServedS3
	m.Databases(p.engines.databases.Usage)
	held := p.storage.store.Held
	m.Stored(fromDatabase(func(ctx context.Context) (int64, error) {
		u, err := held(ctx)
		return u.Objects, err
	}), fromDatabase(func(ctx context.Context) (int64, error) {
		u, err := held(ctx)
		return u.Bytes, err
	}))
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

// fromDatabase returns the value of a gauge that is read from the database: NaN if that fails.
func fromDatabase[N int | int64](read func(context.Context) (N, error)) func() float64 {
	return func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
		defer cancel()
		n, err := read(ctx)
		if err != nil {
			return math.NaN()
		}
		return float64(n)
	}
}
