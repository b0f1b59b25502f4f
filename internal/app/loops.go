package app

import (
	"context"
	"time"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/job"
	"steward/internal/resource"
)

// leaseFor limits how long others wait for a job whose process has died.
const leaseFor = 30 * time.Second

// start starts the background loops. Those in work all stop at once; stop those in watch after them.
func (p *parts) start(watch, work *job.Group) {
	owner := id.New("rep")
	// one does work on one replica at a time, once in an interval. It may take long.
	one := func(interval time.Duration, title, lease string, do func(context.Context) error) {
		l := job.Lease{DB: p.db, Now: p.now, Name: lease, Owner: owner, TTL: leaseFor}
		long := func(ctx context.Context) error { return do(db.Long(ctx)) }
		work.Go((&job.Job{Lease: l, Log: p.log, Title: title, Interval: interval, Do: long}).Run)
	}
	// flush writes data that this process holds in memory.
	flush := func(interval time.Duration, title string, do func(context.Context) error) {
		work.Go(job.Flush(p.log, title, interval, do))
	}
	every := func(interval time.Duration, title string, do func(context.Context) error) {
		work.Go(job.Every(p.log, title, interval, do))
	}
	watch.Go(p.db.RunWatch)
	watch.Go(p.server.Status.Processes.Run)
	watch.Go(p.nodes.directory.Run)
	flush(time.Second, "record failed sign-ins", p.provider.RecordFailures)
	flush(apikey.FlushEvery, "store when API keys were last used", p.keyChecker.Flush)
	flush(account.FlushEvery, "store when members were last seen", p.lastSeen.Flush)
	flush(time.Second, "count the activity of OAuth clients", p.oauth.Activity.Flush)
	every(5*time.Second, "update runs of evaluations that were registered late", p.evals.Sweep)
	one(time.Minute, "delete expired codes, sessions and device codes", "provider", p.provider.Purge)
	one(time.Minute, "delete old idempotency keys", "idempotency", func(ctx context.Context) error {
		_, err := p.server.Idempotency.Purge(ctx, 1000)
		return err
	})
	one(time.Minute, "delete old entries of the audit log", "audit", p.auditLog.Purge)
	one(time.Minute, "delete old invitations", "invitations", p.accounts.PurgeLinks)
	one(time.Minute, "remove deleted organizations", "organizations", p.orgRemover.Run)
	one(time.Minute, "delete old receipts and deliveries", "webhooks", p.webhooks.retention.Run)
	one(time.Minute, "rotate signing keys", "signing keys", p.oauth.Keys.Maintain)
	one(time.Minute, "delete data of deleted OAuth clients", "oauth clients", func(ctx context.Context) error {
		return p.oauth.Clients.Purge(ctx, 1000)
	})
	one(time.Hour, "delete unused OAuth clients that registered themselves", "oauth registrations",
		func(ctx context.Context) error { return p.oauth.Clients.DeleteUnused(ctx, 1000) })
	if p.mail != nil {
		l := job.Lease{DB: p.db, Now: p.now, Name: "mail", Owner: owner, TTL: leaseFor}
		work.Go((&job.Job{
			Lease: l, Log: p.log, Title: "send mail", Interval: time.Second, Pending: p.mail.store.Pending,
			Do: p.mail.worker.Run,
		}).Run)
	}
	one(time.Minute, "measure alerts", "alerts", p.alerts.evaluator.Run)
	notices := job.Lease{DB: p.db, Now: p.now, Name: "alert notices", Owner: owner, TTL: leaseFor}
	work.Go((&job.Job{
		Lease: notices, Log: p.log, Title: "send notices of alerts", Interval: time.Second, Pending: p.alerts.evaluator.Store.HasDue,
		Do: p.alerts.worker.Run,
	}).Run)
	if p.backups != nil {
		work.Go(p.backups.Job(owner).Run)
	}
	objects := p.storage.cleaner
	one(time.Minute, "delete expired objects", "object expiry", objects.Expire)
	one(time.Minute, "delete what deleted buckets held", "object purge", objects.Purge)
	one(time.Minute, "delete the bytes of deleted objects", "object garbage", objects.CollectGarbage)
	one(time.Hour, "abort old uploads", "object uploads", objects.AbortStaleUploads)
	one(time.Hour, "delete answers to completed uploads", "object completions", objects.DeleteCompletions)
	one(6*time.Hour, "delete bytes without an object", "object sweep", objects.Sweep)
	one(time.Minute, "delete old threads", "threads", p.threads.Purge)
	work.Go(p.engines.embeddedDB.Run)
	work.Go(p.engines.embeddedKV.Run)
	work.Go(func(ctx context.Context) { // at once, not only after the first interval
		if err := p.resources.Recover(ctx); err != nil {
			p.log.Error("changes of resources were not completed", "error", err)
		}
	})
	every(resource.RecoverEvery, "complete changes of resources", p.resources.Recover)
	work.Go(p.provider.RunLogouts)
	work.Go(p.webhooks.scheduler.Run)
	work.Go(p.webhooks.replayWorker.Run)
}
