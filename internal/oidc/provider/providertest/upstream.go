package providertest

import (
	"steward/internal/auth"
	"steward/internal/oidc/provider/admission"
	"steward/internal/oidc/provider/federation"
	"steward/internal/oidc/provider/signin"
	relying "steward/internal/oidc/provider/upstream"
	"steward/internal/oidc/upstream"
	"steward/internal/webhook/send"
)

// upstreams returns the providers for the fixture's users, built as package app builds them. They may be
// on this machine. No domain is granted.
func (f *Fixture) upstreams() *federation.Upstreams {
	a := f.Accounts
	store := &upstream.Store{
		DB: f.DB, Ring: f.ring, Now: f.Clock.Now, Audit: f.Audit,
		Domains: upstream.Domains{Granted: map[string]string{}, Accounts: a},
	}
	return &federation.Upstreams{
		Upstreams: signin.Upstreams{
			Admission: admission.Admission{Store: store, Accounts: a},
		},
		Client: relying.New(send.Egress{Loopback: true}.Transport(), f.URL+upstream.PathCallback, f.Clock.Now),
	}
}

// NewUpstream adds a provider to the fixture's organization.
func (f *Fixture) NewUpstream(n upstream.NewUpstream) upstream.Upstream {
	f.T.Helper()
	u, err := f.Provider.Upstreams.Store.Create(f.Ctx, auth.From(f.Ctx), n)
	Must(f.T, err)
	return u
}
