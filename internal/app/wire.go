package app

import (
	"log/slog"
	"net/http"
	"time"

	"steward/internal/account"
	"steward/internal/account/organization"
	"steward/internal/apikey"
	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/console"
	"steward/internal/db"
	"steward/internal/eval"
	"steward/internal/idempotency"
	"steward/internal/oidc"
	"steward/internal/oidc/provider"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/registration"
	"steward/internal/oidc/upstream"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/server"
	"steward/internal/thread"
	"steward/internal/web"
	"steward/internal/webhook/replay"
)

// base is everything that a process has before we build its slices.
type base struct {
	*database
	cfg       config.Config
	addresses datadir.Addresses
	log       *slog.Logger
	now       func() time.Time
	poolSizes poolSizes
	environ   []string // the program's
}

// parts holds the connected slices.
type parts struct {
	base

	auditLog      *audit.Store
	accounts      *account.Store
	lastSeen      *account.Seen
	orgRemover    *organization.Remover
	apiKeys       *apikey.Store
	keyChecker    *apikey.Checker
	threads       *thread.Store
	evals         *eval.Store
	oauth         *provider.Stores
	provider      *provider.Provider
	webhooks      webhooks
	storage       storage
	engines       *engines
	nodes         *nodes
	mail          *mailing   // nil if no mail server is set
	backups       *scheduled // nil if backups have no target
	resources     *resource.Manager
	alerts        alerts
	console       *console.Console
	authenticator *server.Authenticator
	server        *server.Server
}

// wire builds the slices, each after those that it needs, and connects them.
func wire(b base) (*parts, error) {
	p := &parts{base: b}
	p.auditLog = &audit.Store{DB: b.db, Now: b.now, Retention: b.cfg.AuditRetention}
	active := &organization.Active{DB: b.db}
	b.db.Watch(auth.Callers, active.Forget)
	p.accounts = &account.Store{DB: b.db, Now: b.now, Audit: p.auditLog}
	p.lastSeen = &account.Seen{Store: p.accounts}
	p.apiKeys = &apikey.Store{DB: b.db, Now: b.now, Audit: p.auditLog, Accounts: p.accounts}
	p.keyChecker = &apikey.Checker{Store: p.apiKeys}
	decoding := web.NewDecoding()
	p.threads = &thread.Store{
		DB: b.db, Now: b.now, Ring: b.ring, Retention: b.cfg.ThreadRetention, Audit: p.auditLog, Decoding: decoding,
		Accounts: p.accounts,
	}
	p.evals = &eval.Store{DB: b.db, Now: b.now, Audit: p.auditLog, Accounts: p.accounts, Decoding: decoding}
	p.oauth = provider.NewStores(p.accounts, b.ring, b.log, b.cfg.UpstreamDomains)
	p.apiKeys.Consented = p.oauth.Clients.RequireConsent
	b.db.Watch(auth.Callers, p.keyChecker.Forget)
	b.db.Watch(auth.Callers, p.apiKeys.Forget)

	p.webhooks = b.wireWebhooks(p.auditLog)
	p.auditLog.Recorded = p.webhooks.store.AcceptAuditTx
	p.storage = b.wireObjects(p.auditLog, active, p.webhooks.store)
	engines, err := b.wireEngines(p.auditLog, active)
	if err != nil {
		return nil, err
	}
	p.engines = engines
	p.resources = b.wireResources(p.engines, p.storage)
	p.nodes = b.wireNodes(p.engines, p.resources)

	if p.mail, err = b.wireMail(p.accounts); err != nil {
		return nil, err
	}
	p.backups = b.wireBackups()
	p.provider = b.wireProvider(p.oauth, p.apiKeys)
	p.provider.Sender = p.webhooks.sender.Network
	p.console = b.wireConsole(p.provider, p.accounts)
	p.authenticator = &server.Authenticator{
		Keys: p.keyChecker, Tokens: p.provider, Console: p.console, Active: active,
		Accounts: p.accounts, Seen: p.lastSeen, PerSecond: b.cfg.RateLimit,
		ResourceMetadata: p.provider.ResourceMetadata(),
	}
	p.connectDeletions()
	p.orgRemover = p.wireOrganizations()
	p.server = p.newServer()
	return p, nil
}

// connectDeletions makes deleting a project, a member, a user or a consent delete everything that
// belongs to it.
func (p *parts) connectDeletions() {
	p.accounts.ProjectGone = []func(*db.Tx, string, string) error{
		p.apiKeys.DeleteOfProject, p.threads.ProjectGone, p.evals.DeleteOfProject, p.oauth.Clients.ForgetProject,
	}
	p.accounts.MemberGone = []func(*db.Tx, string, string) error{p.apiKeys.DeleteOfUser, p.oauth.Clients.ForgetMember}
	p.accounts.UserGone = []func(*db.Tx, string) error{session.RemoveAll}
	p.accounts.FactorsGone = []func(*db.Tx, string) error{p.provider.ClearFactors}
	p.accounts.SignInsGone = []func(*db.Tx, string) error{p.provider.RemoveSignIns}
	p.oauth.Clients.ConsentGone = []func(*db.Tx, string, string, string) error{p.apiKeys.DeleteOfClient}
}

// connectTails makes live tails check their callers again when their rights may have changed. Call
// it after the callers' caches are registered, so that those are emptied first.
func (p *parts) connectTails() {
	tails := p.webhooks.tails
	tails.Authorize = p.mayReadWebhooks
	for _, name := range []string{auth.Callers, oidc.Cache, session.Cache} {
		p.db.Watch(name, tails.Recheck)
	}
}

// mayReadWebhooks returns the caller behind a stream, or an error if they may no longer read webhooks.
func (p *parts) mayReadWebhooks(r *http.Request) (*auth.Caller, error) {
	return p.authenticator.Reauthorize(r, auth.ReadWebhooks)
}

// newServer returns the API's server, with the handlers from all slices.
func (p *parts) newServer() *server.Server {
	baseURL := p.addresses.BaseURL
	socket := thread.NewSocket(p.threads, p.authenticator.IdentifyActive, min(descriptors()/2, 16_384), p.poolSizes.threads)
	socket.Disk = p.databaseDisk
	states := p.wireStatus()
	hooks := p.webhooks.handler(p.base, p.mayReadWebhooks)
	p.alerts = p.wireAlerts(states.Processes, hooks)
	return &server.Server{
		Account:     &account.Handler{Store: p.accounts, BaseURL: baseURL, Passkeys: p.provider.HasPasskeys},
		Org:         &organization.Handler{Store: p.orgRemover.Store, Open: p.cfg.OpenOrganizations},
		Key:         &apikey.Handler{Store: p.apiKeys},
		Audit:       &audit.Handler{Store: p.auditLog},
		Search:      &search.Handler{Sources: p.searchSources()},
		Status:      states,
		Alert:       p.alerts.handler,
		Eval:        &eval.Handler{Store: p.evals},
		OIDC:        &oidc.Handler{Store: p.oauth.Clients, Keys: p.oauth.Keys, BaseURL: baseURL},
		Upstream:    &upstream.Handler{Store: p.oauth.Upstreams.Store, BaseURL: baseURL},
		Tokens:      &registration.Handler{Store: p.oauth.Registrations},
		Object:      p.storage.handler,
		Resource:    &resource.Handler{Manager: p.resources, Accounts: p.accounts},
		Thread:      &thread.Handler{Store: p.threads, Evals: p.evals},
		Socket:      socket,
		Webhook:     hooks,
		Ingest:      p.webhooks.ingest,
		Tail:        p.webhooks.tails,
		Replay:      &replay.Handler{Store: p.webhooks.replayWorker.Store},
		Provider:    p.provider,
		Console:     p.console,
		Auth:        p.authenticator,
		Idempotency: &idempotency.Store{DB: p.db, Ring: p.ring, Now: p.now},
		Proxies:     p.cfg.TrustedProxies,
		Log:         p.log,
		Memory:      budget.NewPool(p.poolSizes.api, web.MaxBody),
		Decoding:    p.threads.Decoding,
		Databases:   p.engines.embeddedDB,
		Disk:        p.databaseDisk,
	}
}
