package app

import (
	"context"
	"math"
	"time"

	"steward/internal/app/metrics"
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
