package app

import (
	"context"
	"maps"
	"math"
	"time"

	"steward/internal/app/metrics"
	"steward/internal/budget"
	"steward/internal/disk"
	"steward/internal/mail"
)

// scrapeTimeout bounds how long a scrape reads from the database.
const scrapeTimeout = 2 * time.Second

// measure connects the slices with the metrics. Call it before anything is served.
func (p *parts) measure(m *metrics.Metrics) {
	p.provider.Observer.Issued = m.TokenIssued
	p.provider.Observer.Refused = m.TokenRefused
	p.provider.Observer.LogoutSent = m.LogoutSent
	p.webhooks.ingest.Accepted = m.IngestAccepted
	p.webhooks.ingest.Refused = m.IngestRefused
	p.webhooks.sender.Delivered = m.Delivered
	if p.mail != nil {
		p.mail.worker.Tried = func(k mail.Kind, sent, dropped bool) { m.MailTried(string(k), sent, dropped) }
		m.Read(metrics.MailQueued, fromDatabase(p.mail.store.Queued))
	}
	if p.backups != nil {
		p.backups.measure(m)
	}
	stats := p.webhooks.scheduler.Stats
	m.Read(metrics.InFlightBytes, func() float64 { return float64(stats().Bytes) })
	m.Read(metrics.InFlightSockets, func() float64 { return float64(stats().Sockets) })
	m.Read(metrics.OldestDueAge, func() float64 { return stats().OldestDue.Seconds() })
	m.Read(metrics.OpenSockets, func() float64 { return float64(p.server.Socket.OpenSockets()) })
	m.Read(metrics.OpenTails, func() float64 { return float64(p.webhooks.tails.Open()) })
	m.Read(metrics.TailLag, fromDatabase(p.webhooks.store.TailLag))
	m.Read(metrics.DiskFree, func() float64 {
		free, err := disk.Free(p.cfg.Data)
		if err != nil {
			return math.NaN()
		}
		return float64(free)
	})
	m.Read(metrics.DiskReserve, func() float64 { return float64(p.cfg.DiskReserve) })
	m.Read(metrics.DatabaseReachable, succeeds(p.db.Ping))
	m.Read(metrics.FailingDestinations, fromDatabase(p.webhooks.store.CountFailing))
	m.Read(metrics.ConnectionsUsed, func() float64 { return float64(p.db.Connections().Used) })
	m.Read(metrics.ConnectionsLimit, func() float64 { return float64(p.db.Connections().Limit) })
	m.Read(metrics.QueueDepth, fromDatabase(p.webhooks.store.QueueDepth))
	for name, pool := range p.pools() {
		m.Pool(name, pool.Usage)
	}
	m.Databases(p.engines.embeddedDB.Usage)
	m.Stores(p.engines.embeddedKV.Usage)
	held := p.storage.totals.All
	m.Read(metrics.StoredObjects, fromDatabase(func(ctx context.Context) (int64, error) {
		u, err := held(ctx)
		return u.Objects, err
	}))
	m.Read(metrics.StoredBytes, fromDatabase(func(ctx context.Context) (int64, error) {
		u, err := held(ctx)
		return u.Bytes, err
	}))
}

// pools returns the pools that the metrics show, by name.
func (p *parts) pools() map[string]*budget.Pool {
	pools := map[string]*budget.Pool{
		"ingest": p.webhooks.ingest.Memory,
		"api":    p.server.Memory,

		"s3_messages": p.storage.server.Messages, "s3_requests": p.storage.server.Slots,

		"thread_sockets":         p.server.Socket.Open,
		"thread_sockets_unknown": p.server.Socket.Unauthenticated,
		"thread_frames":          p.server.Socket.Frames,
		"thread_responses":       p.server.Socket.Responses,

		"tails":       p.webhooks.tails.Connections,
		"tail_events": p.webhooks.tails.Memory,
		"tail_feeds":  p.webhooks.tails.Feeds,

		"kv_connections":         p.engines.embeddedKV.Connections,
		"kv_connections_unknown": p.engines.embeddedKV.Unauthenticated,
		"kv":                     p.engines.embeddedKV.Memory,
		"kv_keys":                p.engines.embeddedKV.KeyMemory,
		"kv_scripts":             p.engines.embeddedKV.ScriptMemory,
	}
	maps.Copy(pools, p.engines.embeddedDB.Pools())
	return pools
}

// succeeds returns a gauge's value: 1 if a check returns no error, else 0.
func succeeds(check func(context.Context) error) func() float64 {
	return func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
		defer cancel()
		if check(ctx) != nil {
			return 0
		}
		return 1
	}
}

// fromDatabase returns a gauge's value that is read from the database: NaN if that fails.
func fromDatabase[N int | int64 | float64](read func(context.Context) (N, error)) func() float64 {
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
