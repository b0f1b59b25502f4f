package app

import (
	"context"
	"log/slog"
	"time"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/job"
	"steward/internal/resource"
)

// leaseFor is how long a job of a process that died is not done by another one.
const leaseFor = 30 * time.Second

// start starts the background loops, which stop all at once. Those of watch must be stopped after the
// others.
func (p *parts) start(watch, g *job.Group, d *db.DB, log *slog.Logger, now func() time.Time) {
	owner := id.New("rep")
	// one does work on one replica at a time, once in an interval. It may take long.
	one := func(interval time.Duration, title, lease string, do func(context.Context) error) {
		l := job.Lease{DB: d, Now: now, Name: lease, Owner: owner, TTL: leaseFor}
		long := func(ctx context.Context) error { return do(db.Long(ctx)) }
		g.Go((&job.Job{Lease: l, Log: log, Title: title, Interval: interval, Do: long}).Run)
	}
	// flush writes what this process has in memory.
	flush := func(interval time.Duration, title string, do func(context.Context) error) {
		g.Go(job.Flush(log, title, interval, do))
	}
	every := func(interval time.Duration, title string, do func(context.Context) error) {
		g.Go(job.Every(log, title, interval, do))
	}
	watch.Go(d.RunWatch)
	watch.Go(p.server.Status.Processes.Run)
	flush(time.Second, "record failed sign-ins", p.signIn.RecordFailures)
	flush(apikey.FlushEvery, "store when API keys were last used", p.checker.Flush)
	flush(account.FlushEvery, "store when members were last seen", p.seen.Flush)
	flush(time.Second, "count the activity of OAuth clients", p.oauth.activity.Flush)
	every(5*time.Second, "update runs of evaluations that were registered late", p.evals.Sweep)
	one(time.Minute, "delete expired codes, sessions and device codes", "provider", p.signIn.Purge)
	one(time.Minute, "delete old idempotency keys", "idempotency", func(ctx context.Context) error {
		_, err := p.server.Idempotency.Purge(ctx, 1000)
		return err
	})
	one(time.Minute, "delete old entries of the audit log", "audit", p.log.Purge)
	one(time.Minute, "delete old invitations", "invitations", p.accounts.PurgeLinks)
	one(time.Minute, "delete old receipts and deliveries", "webhooks", p.hooks.retention.Run)
	one(time.Minute, "rotate signing keys", "signing keys", p.oauth.signing.Maintain)
	one(time.Minute, "delete data of deleted OAuth clients", "oauth clients", func(ctx context.Context) error {
		return p.oauth.clients.Purge(ctx, 1000)
	})
	objects := p.storage.store
	one(time.Minute, "delete expired objects", "object expiry", objects.Expire)
	one(time.Minute, "delete what deleted buckets held", "object purge", objects.Purge)
	one(time.Minute, "delete the bytes of deleted objects", "object garbage", objects.CollectGarbage)
	one(time.Hour, "abort old uploads", "object uploads", objects.AbortStaleUploads)
	one(time.Hour, "delete answers to completed uploads", "object completions", objects.DeleteCompletions)
	one(6*time.Hour, "delete bytes without an object", "object sweep", objects.Sweep)
	one(time.Minute, "delete old threads", "threads", p.threads.Purge)
	p.engines.start(g)
	g.Go(func(ctx context.Context) { // at once, not only after the first interval
		if err := p.manager.Recover(ctx); err != nil {
			log.Error("changes of resources were not completed", "error", err)
		}
	})
	every(resource.RecoverEvery, "complete changes of resources", p.manager.Recover)
	g.Go(p.hooks.scheduler.Run)
	g.Go(p.hooks.replays.Run)
}
