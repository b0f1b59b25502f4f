package app

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/eval"
	"steward/internal/id"
	"steward/internal/idempotency"
	"steward/internal/job"
	"steward/internal/oidc"
	oidckeys "steward/internal/oidc/keys"
	"steward/internal/oidc/provider"
	"steward/internal/resource"
	"steward/internal/server"
	"steward/internal/thread"
	"steward/internal/webhook"
	"steward/internal/webhook/send"
	"steward/internal/webhook/stats"
)

// parts are the slices, joined. This is the only place where they meet: each is a struct of named dependencies, and where one needs
// another, a function field of the one is filled with a method of the other.
type parts struct {
	accounts *account.Store
	keys     *apikey.Store
	checker  *apikey.Checker
	threads  *thread.Store
	evals    *eval.Store
	hooks    hooks
	oauth    oauth
	signIn   *provider.Provider
	server   *server.Server
}

func wire(cfg Config, o *opened, baseURL string, own []netip.AddrPort, log *slog.Logger, now func() time.Time) *parts {
	d := o.db
	lines := &audit.Store{DB: d, Now: now}
	accounts := &account.Store{DB: d, Now: now, Audit: lines.Record}
	keys := &apikey.Store{DB: d, Now: now, Audit: lines.Record, Project: accounts.Require}
	threads := &thread.Store{
		DB: d, Now: now, Ring: o.ring, Retention: cfg.ThreadRetention, Audit: lines.Record,
		Project: accounts.Require, DefaultProject: accounts.Oldest,
	}
	evals := &eval.Store{DB: d, Now: now, Audit: lines.Record, Project: accounts.Require}
	oauth := wireOAuth(o, lines.Record, accounts.Require, now)
	accounts.ProjectGone = []func(*db.Tx, string, string) error{
		keys.DeleteOfProject, threads.ProjectGone, evals.DeleteOfProject, oauth.clients.ForgetProject,
	}
	accounts.MemberGone = []func(*db.Tx, string, string) error{keys.DeleteOfUser, oauth.clients.ForgetMember}

	checker := &apikey.Checker{Store: keys}
	d.Watch(auth.Callers, checker.Forget)
	d.Watch(auth.Callers, keys.Forget)

	hooks := wireHooks(cfg, o, baseURL, own, lines.Record, log, now)
	signIn := wireProvider(cfg, o, baseURL, oauth, accounts, now)

	callers := &server.Authenticator{Key: checker.Authenticate, Token: signIn.Caller, PerSecond: cfg.RateLimit}

	return &parts{
		accounts: accounts, keys: keys, checker: checker, evals: evals, threads: threads, hooks: hooks, oauth: oauth, signIn: signIn,
		server: &server.Server{
			Account:     &account.Handler{Store: accounts, BaseURL: baseURL},
			Key:         &apikey.Handler{Store: keys},
			Audit:       &audit.Handler{Store: lines},
			Eval:        &eval.Handler{Store: evals},
			OIDC:        &oidc.Handler{Store: oauth.clients, Keys: oauth.signing, BaseURL: baseURL},
			Resource:    &resource.Handler{Configured: regions(cfg)},
			Thread:      &thread.Handler{Store: threads},
			Socket:      &thread.Socket{Store: threads, Authenticate: callers.Identify},
			Webhook:     &webhook.Handler{Store: hooks.store, Stats: &stats.Store{DB: d, Now: now}, BaseURL: baseURL},
			Ingest:      hooks.ingest,
			Protocol:    signIn.Mount,
			Auth:        callers,
			Idempotency: &idempotency.Store{DB: d, Ring: o.ring, Now: now},
			Proxies:     cfg.TrustedProxies,
			Log:         log,
			Ready:       d.Ping,
		},
	}
}

// hooks are the parts of the webhook slice that run by themselves.
type hooks struct {
	store     *webhook.Store
	ingest    *webhook.Ingest
	scheduler *webhook.Scheduler
	retention *webhook.Retention
}

func wireHooks(cfg Config, o *opened, baseURL string, own []netip.AddrPort, record func(*db.Tx, string, string) error, log *slog.Logger, now func() time.Time) hooks {
	store := &webhook.Store{DB: o.db, Ring: o.ring, Now: now, Log: log, Audit: record, Owner: id.New("rep"), Counters: webhook.NewCounters()}
	sender := send.New(egress(cfg, baseURL, own), now)
	scheduler := webhook.NewScheduler(store, deliverySockets())
	scheduler.Send = sender.Send
	scheduler.Log = log
	scheduler.Exclusive = o.db.Dialect() == db.SQLite
	store.Wake = scheduler.Wake
	return hooks{
		store:     store,
		ingest:    webhook.NewIngest(store, cfg.IngestLimit),
		scheduler: scheduler,
		retention: &webhook.Retention{Store: store, Keep: cfg.WebhookRetention},
	}
}

// oauth are the parts of the OAuth slice that the provider and the loops use.
type oauth struct {
	clients  *oidc.Store
	signing  *oidckeys.Store
	activity *oidc.Activity
}

func wireOAuth(o *opened, record func(*db.Tx, string, string) error,
	project func(*db.Tx, *auth.Caller, string, string) error, now func() time.Time,
) oauth {
	clients := &oidc.Store{DB: o.db, Now: now, Audit: record, Project: project}
	signing := &oidckeys.Store{DB: o.db, Ring: o.ring, Now: now, Audit: record}
	o.db.Watch(oidc.Cache, clients.Forget)
	o.db.Watch(auth.Callers, clients.Forget)
	o.db.Watch(oidckeys.Cache, signing.Forget)
	return oauth{clients: clients, signing: signing, activity: &oidc.Activity{Store: clients}}
}

func regions(cfg Config) []resource.Region {
	out := make([]resource.Region, len(cfg.Regions))
	for i, r := range cfg.Regions {
		out[i] = resource.Region{Region: r.Region, Description: r.Description}
	}
	return out
}

// start runs the background loops; they are stopped in the reverse order.
func (p *parts) start(g *job.Group, d *db.DB, log *slog.Logger, now func() time.Time) {
	owner := id.New("rep")
	sole := func(name string, do func(context.Context) error) func(context.Context) error {
		l := &job.Lease{DB: d, Now: now, Name: name, Owner: owner, TTL: 5 * time.Minute}
		return l.Exclusive(do)
	}
	g.Go(d.RunWatch)
	g.Go(job.Every(log, "forget codes, sessions and devices whose time is up", time.Minute, sole("provider", p.signIn.Purge)))
	g.Go(job.Every(log, "note uses of keys", apikey.FlushEvery, p.checker.Flush))
	g.Go(job.Every(log, "label runs of late evaluations, purge those of deleted projects", 5*time.Second, p.evals.Sweep))
	g.Go(job.Every(log, "forget old answers", time.Minute, sole("idempotency", func(ctx context.Context) error {
		_, err := p.server.Idempotency.Purge(ctx, 1000)
		return err
	})))
	g.Go(job.Every(log, "remove old receipts and deliveries", time.Minute, sole("webhooks", p.hooks.retention.Run)))
	g.Go(job.Every(log, "count accesses of OAuth clients", time.Second, p.oauth.activity.Flush))
	g.Go(job.Every(log, "tend signing keys", time.Minute, sole("signing keys", p.oauth.signing.Tend)))
	g.Go(job.Every(log, "remove what dead OAuth clients left", time.Minute, sole("oauth remains", func(ctx context.Context) error {
		return p.oauth.clients.Purge(ctx, 1000)
	})))
	g.Go(p.hooks.scheduler.Run)
	g.Go(job.Every(log, "purge deleted threads", time.Minute, sole("threads", p.threads.Purge)))
}
