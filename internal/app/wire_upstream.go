package app

import (
	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/oidc/provider/admission"
	"steward/internal/oidc/provider/federation"
	"steward/internal/oidc/provider/signin"
	relying "steward/internal/oidc/provider/upstream"
	"steward/internal/oidc/upstream"
)

// wireUpstreams returns the providers that members sign in with.
func (b base) wireUpstreams(auditLog *audit.Store, accounts *account.Store) *federation.Upstreams {
	domains := upstream.Domains{Granted: b.cfg.UpstreamDomains, Accounts: accounts}
	transport := egress(b.cfg, b.addresses).Transport()
	store := &upstream.Store{
		DB: b.db, Ring: b.ring, Now: b.now, Audit: auditLog, Domains: domains,
	}
	return &federation.Upstreams{
		Upstreams: signin.Upstreams{
			Admission: admission.Admission{Store: store, Accounts: accounts},
		},
		Client: relying.New(transport, b.addresses.BaseURL+upstream.PathCallback, b.now),
	}
}
