package app

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/eval"
	"steward/internal/id"
	"steward/internal/idempotency"
	"steward/internal/job"
	"steward/internal/object"
	"steward/internal/oidc"
	"steward/internal/oidc/provider"
	"steward/internal/oidc/provider/session"
	"steward/internal/page"
	"steward/internal/resource"
	"steward/internal/server"
	"steward/internal/thread"
	"steward/internal/web"
	"steward/internal/webhook"
	"steward/internal/webhook/replay"
	"steward/internal/webhook/send"
	"steward/internal/webhook/stats"
	"steward/internal/webhook/tail"
)

// parts holds the connected slices.
type parts struct {
	log      *audit.Store
	accounts *account.Store
	seen     *account.Seen
	keys     *apikey.Store
	checker  *apikey.Checker
	threads  *thread.Store
	evals    *eval.Store
	hooks    hooks
	storage  storage
	engines  *engines
	manager  *resource.Manager
	oauth    oauth
	signIn   *provider.Provider
	server   *server.Server
}

func wire(cfg config.Config, d *database, at datadir.Addresses, log *slog.Logger, now func() time.Time) (*parts, error) {
	baseURL := at.BaseURL
	lines := &audit.Store{DB: d.db, Now: now, Request: requestSource, Retention: cfg.AuditRetention}
	accounts := &account.Store{DB: d.db, Now: now, Audit: lines.Record}
	keys := &apikey.Store{DB: d.db, Now: now, Audit: lines.Record, Project: accounts.EnsureProject}
	threads := &thread.Store{
		DB: d.db, Now: now, Ring: d.ring, Retention: cfg.ThreadRetention, Audit: lines.Record,
		Project: accounts.EnsureProject, DefaultProject: accounts.Oldest,
	}
	evals := &eval.Store{DB: d.db, Now: now, Audit: lines.Record, Project: accounts.EnsureProject}
	oauth := wireOAuth(d, lines.Record, accounts.EnsureProject, log, now)
	accounts.ProjectGone = []func(*db.Tx, string, string) error{
		keys.DeleteOfProject, threads.ProjectGone, evals.DeleteOfProject, oauth.clients.ForgetProject,
	}
	keys.Consented = oauth.clients.RequireConsent
	oauth.clients.ConsentGone = []func(*db.Tx, string, string, string) error{keys.DeleteOfClient}
	accounts.MemberGone = []func(*db.Tx, string, string) error{keys.DeleteOfUser, oauth.clients.ForgetMember}
	accounts.UserGone = []func(*db.Tx, string) error{session.RemoveAll}

	checker := &apikey.Checker{Store: keys}
	d.db.Watch(auth.Callers, checker.Forget)
	d.db.Watch(auth.Callers, keys.Forget)

	sizes := memoryOf(budget.MemoryLimit())
	hooks := wireHooks(cfg, d, at, sizes, lines.Record, log, now)
	storage := wireObjects(cfg, d, at, lines.Record, hooks.store, log, now)
	engines, err := wireEngines(cfg, d, at, sizes, lines.Record, log, now)
	if err != nil {
		return nil, err
	}
	manager := engines.manager(d, storage)
	signIn := wireProvider(cfg, d, baseURL, oauth, accounts, keys, lines, now)
	site := wireConsole(d, at, signIn, accounts)
	seen := &account.Seen{Store: accounts}
	callers := &server.Authenticator{
		Key: checker.Authenticate, Token: signIn.Caller, Bound: signIn.BoundCaller, Session: site.Caller, Seen: seen.Note,
		PerSecond: cfg.RateLimit,
	}
	hooks.tail.Authorize = func(r *http.Request) (*auth.Caller, error) { return callers.Reauthorize(r, auth.ReadWebhooks) }
	for _, name := range []string{auth.Callers, oidc.Cache, session.Cache} { // after their caches were emptied
		d.db.Watch(name, hooks.tail.Recheck)
	}

	things := searched{
		accounts: accounts, keys: keys, clients: oauth.clients, hooks: hooks.store, objects: storage.store,
		resources: engines.store, threads: threads, evals: evals,
	}

	socket := thread.NewSocket(threads, callers.Identify, min(descriptors()/2, 16_384), sizes.threads)
	socket.Disk = d.rows

	return &parts{
		log: lines, accounts: accounts, seen: seen, keys: keys, checker: checker, evals: evals, threads: threads,
		hooks: hooks, storage: storage, engines: engines, manager: manager, oauth: oauth, signIn: signIn,
		server: &server.Server{
			Account:     &account.Handler{Store: accounts, BaseURL: baseURL},
			Key:         &apikey.Handler{Store: keys},
			Audit:       &audit.Handler{Store: lines},
			Search:      things.handler(),
			Status:      wireStatus(cfg, d, engines, hooks.store, log, now),
			Eval:        &eval.Handler{Store: evals},
			OIDC:        &oidc.Handler{Store: oauth.clients, Keys: oauth.signing, BaseURL: baseURL},
			Object:      &object.Handler{Store: storage.store, Presign: storage.server.Presign, Expiry: cfg.PresignExpiry},
			Resource:    &resource.Handler{Manager: manager, OrgName: accounts.OrgName},
			Thread:      &thread.Handler{Store: threads, Runs: sessionRuns(evals)},
			Socket:      socket,
			Webhook:     hooks.handler(d, baseURL, now),
			Ingest:      hooks.ingest,
			Tail:        hooks.tail,
			Replay:      &replay.Handler{Store: hooks.replays.Store},
			Protocol:    signIn.Mount,
			Console:     site,
			Auth:        callers,
			Idempotency: &idempotency.Store{DB: d.db, Ring: d.ring, Now: now},
			Proxies:     cfg.TrustedProxies,
			Log:         log,
			Memory:      budget.NewPool(sizes.api, web.MaxBody),
			Databases:   engines.databases,
			Ready:       d.db.Ping,
			Disk:        d.rows,
		},
	}, nil
}

// maxSessionRuns is how many runs of evaluations are shown with a session.
const maxSessionRuns = 100

// sessionRuns returns a function that returns the latest runs of evaluations over a session.
func sessionRuns(evals *eval.Store) func(context.Context, *auth.Caller, string) ([]thread.EvalRun, error) {
	return func(ctx context.Context, caller *auth.Caller, sessionID string) ([]thread.EvalRun, error) {
		filter := eval.Filter{SessionID: sessionID, ProjectID: caller.ProjectID}
		found, err := evals.Runs(ctx, caller.OrgID, filter, page.Paging{Limit: maxSessionRuns})
		if err != nil {
			return nil, err
		}
		runs := make([]thread.EvalRun, len(found.Items))
		for i, r := range found.Items {
			runs[i] = thread.EvalRun{
				ID: r.ID, CreatedAt: r.CreatedAt, EvalID: r.EvalID, Pending: r.Pending,
				Success: r.Success, Error: r.Error, Result: r.Result,
			}
		}
		return runs, nil
	}
}

// requestSource returns where a request came from, for its entries in the audit log.
func requestSource(ctx context.Context) (requestID, remoteAddr string) {
	meta := web.Request(ctx)
	return meta.ID, meta.RemoteAddr
}

// hooks holds the parts of the webhook slice that run in the background.
type hooks struct {
	store     *webhook.Store
	ingest    *webhook.Ingest
	tail      *tail.Server
	scheduler *webhook.Scheduler
	replays   *replay.Worker
	retention *webhook.Retention
}

func wireHooks(
	cfg config.Config, d *database, at datadir.Addresses, sizes memory, record func(*db.Tx, string, string) error,
	log *slog.Logger, now func() time.Time,
) hooks {
	store := &webhook.Store{
		DB: d.db, Ring: d.ring, Now: now, Log: log, Audit: record, Owner: id.New("rep"),
	}
	scheduler := webhook.NewScheduler(store, deliverySockets(), sizes.deliveries)
	scheduler.Send = send.New(egress(cfg, at), now).Send
	scheduler.Log = log
	scheduler.Disk = d.rows
	scheduler.Exclusive = d.db.Dialect() == db.SQLite
	store.Wake = scheduler.Wake
	tails := tail.New(store, log, sizes.tails)
	store.Logged = tails.Wake
	replays := &replay.Store{DB: d.db, Now: now, Audit: record, Hooks: store}
	store.Replayed = replays.Ended
	worker := replay.NewWorker(replays, log, store.Owner)
	worker.Disk = d.rows
	ingest := webhook.NewIngest(store, cfg.IngestLimit, sizes.ingest)
	ingest.Disk = d.rows
	return hooks{
		store:     store,
		ingest:    ingest,
		tail:      tails,
		scheduler: scheduler,
		replays:   worker,
		retention: &webhook.Retention{Store: store, Keep: cfg.WebhookRetention},
	}
}

// handler returns the handler of the routes, which sends tests with the client of deliveries.
func (h hooks) handler(d *database, baseURL string, now func() time.Time) *webhook.Handler {
	return &webhook.Handler{
		Store: h.store, Stats: &stats.Store{DB: d.db, Now: now}, BaseURL: baseURL, Send: h.scheduler.Send,
	}
}

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
