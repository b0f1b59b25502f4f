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
	"steward/internal/idempotency"
	"steward/internal/object"
	"steward/internal/oidc"
	"steward/internal/oidc/provider"
	"steward/internal/oidc/provider/session"
	"steward/internal/page"
	"steward/internal/resource"
	"steward/internal/server"
	"steward/internal/thread"
	"steward/internal/web"
	"steward/internal/webhook/replay"
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
