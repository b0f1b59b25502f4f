package provider

import (
	"log/slog"
	"time"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
	"steward/internal/oidc/provider/signin"
	"steward/internal/oidc/registration"
	"steward/internal/oidc/upstream"
	"steward/internal/seal"
)

// Stores has the data that the provider shares with the management API.
type Stores struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
	// Log gets the errors from background work.
	Log      *slog.Logger
	Accounts *account.Store
	Clients  *oidc.Store
	// Registrations has the initial access tokens of those who may register clients.
	Registrations *registration.Store
	Keys          *keys.Store
	Activity      *oidc.Activity
	// Upstreams has the providers that users can sign in with.
	Upstreams *signin.Upstreams
}

// NewStores returns the stores with their caches registered. granted has the domains that the operator
// has granted to organizations.
func NewStores(accounts *account.Store, ring *seal.Ring, log *slog.Logger, granted map[string]string) *Stores {
	d, now, audit := accounts.DB, accounts.Now, accounts.Audit
	clients := &oidc.Store{DB: d, Now: now, Audit: audit, Accounts: accounts}
	signing := &keys.Store{DB: d, Ring: ring, Now: now, Log: log, Audit: audit}
	d.Watch(oidc.Cache, clients.Forget)
	d.Watch(auth.Callers, clients.Forget)
	d.Watch(keys.Cache, signing.Forget)
	return &Stores{
		DB: d, Ring: ring, Now: now, Log: log, Accounts: accounts, Clients: clients, Keys: signing,
		Registrations: &registration.Store{DB: d, Now: now, Audit: audit},
		Activity:      &oidc.Activity{Store: clients},
		Upstreams: &signin.Upstreams{Accounts: accounts, Store: &upstream.Store{
			DB: d, Ring: ring, Now: now, Audit: audit, Domains: upstream.Domains{Granted: granted, Accounts: accounts},
		}},
	}
}
