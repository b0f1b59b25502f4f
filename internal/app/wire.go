package app

import (
	"context"
	"log/slog"
	"time"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/job"
	"steward/internal/resource"
	"steward/internal/server"
	"steward/internal/web"
)

// parts are the slices, joined. This is the only place where they meet: each is a struct of named dependencies, and where one needs
// another, a function field of the one is filled with a method of the other.
type parts struct {
	accounts *account.Store
	keys     *apikey.Store
	checker  *apikey.Checker
	server   *server.Server
}

func wire(cfg Config, o *opened, baseURL string, log *slog.Logger, now func() time.Time) *parts {
	d := o.db
	lines := &audit.Store{DB: d, Now: now}
	accounts := &account.Store{DB: d, Now: now, Audit: lines.Record}
	keys := &apikey.Store{DB: d, Now: now, Audit: lines.Record, Project: accounts.Require}
	accounts.ProjectGone = []func(*db.Tx, string, string) error{keys.DeleteOfProject}
	accounts.MemberGone = []func(*db.Tx, string, string) error{keys.DeleteOfUser}

	checker := &apikey.Checker{Store: keys}
	d.Watch(auth.Callers, checker.Forget)

	return &parts{
		accounts: accounts, keys: keys, checker: checker,
		server: &server.Server{
			Account:     &account.Handler{Store: accounts, BaseURL: baseURL},
			Key:         &apikey.Handler{Store: keys},
			Audit:       &audit.Handler{Store: lines},
			Resource:    &resource.Handler{Configured: regions(cfg)},
			Auth:        &server.Authenticator{Key: checker.Authenticate, PerSecond: cfg.RateLimit},
			Idempotency: &web.Idempotency{DB: d, Ring: o.ring, Now: now},
			Log:         log,
			Ready:       d.Ping,
		},
	}
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
		l := &job.Lease{DB: d, Now: now, Name: name, Owner: owner, For: 5 * time.Minute}
		return l.Sole(do)
	}
	g.Go(d.RunWatch)
	g.Go(job.Every(log, "note uses of keys", 20*time.Second, p.checker.Flush))
	g.Go(job.Every(log, "forget old answers", time.Minute, sole("idempotency", func(ctx context.Context) error {
		_, err := p.server.Idempotency.Purge(ctx, 1000)
		return err
	})))
}
