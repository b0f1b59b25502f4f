package providertest

import (
	"context"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc/provider/admission"
	"steward/internal/oidc/provider/federation"
	"steward/internal/oidc/provider/signin"
	relying "steward/internal/oidc/provider/upstream"
	"steward/internal/oidc/upstream"
	"steward/internal/webhook/send"
)

// upstreams returns the providers with which users of the fixture sign in, as package app makes them. They
// may be on this machine. No domain is granted.
func (f *Fixture) upstreams() *federation.Upstreams {
	a := f.Accounts
	first := func(ctx context.Context) (string, error) {
		orgID, _, err := a.FirstOrg(ctx)
		return orgID, err
	}
	members := admission.Members{
		Standing: func(tx *db.Tx, orgID, userID string) (admission.Standing, error) {
			st, err := a.Standing(tx, orgID, userID)
			return admission.Standing(st), err
		},
		AcceptVerified: func(tx *db.Tx, n admission.Newcomer) (string, error) {
			return a.AcceptVerified(tx, account.Newcomer(n))
		},
		Admit:   func(tx *db.Tx, n admission.Newcomer) (string, error) { return a.Admit(tx, account.Newcomer(n)) },
		SetRole: func(tx *db.Tx, c admission.RoleChange) error { return a.SetRole(tx, account.RoleChange(c)) },
	}
	store := &upstream.Store{
		DB: f.DB, Ring: f.ring, Now: f.Clock.Now, Audit: f.Audit.Record, LockOrg: account.LockOrg,
		Domains: upstream.Domains{Granted: map[string]string{}, First: first},
	}
	return &federation.Upstreams{
		Upstreams: signin.Upstreams{
			Admission: admission.Admission{Store: store, Members: members}, FirstOrg: a.FirstOrg,
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
