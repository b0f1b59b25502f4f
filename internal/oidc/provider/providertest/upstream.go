package providertest

import (
	"context"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc/provider/signin"
	relying "steward/internal/oidc/provider/upstream"
	"steward/internal/oidc/upstream"
	"steward/internal/webhook/send"
)

// upstreams returns the providers with which users of the fixture sign in, as package app makes them. They
// may be on this machine. No domain is granted.
func (f *Fixture) upstreams() *signin.Upstreams {
	a := f.Accounts
	first := func(ctx context.Context) (string, error) {
		orgID, _, err := a.FirstOrg(ctx)
		return orgID, err
	}
	return &signin.Upstreams{
		Store: &upstream.Store{
			DB: f.DB, Ring: f.ring, Now: f.Clock.Now, Audit: f.Audit.Record,
			Domains: upstream.Domains{Granted: map[string]string{}, First: first},
		},
		Client:   relying.New(send.Egress{Loopback: true}.Transport(), f.URL+upstream.PathCallback, f.Clock.Now),
		FirstOrg: a.FirstOrg,
		Members: signin.Members{
			Standing: func(tx *db.Tx, orgID, userID string) (signin.Standing, error) {
				st, err := a.Standing(tx, orgID, userID)
				return signin.Standing(st), err
			},
			AcceptVerified: func(tx *db.Tx, n signin.Newcomer) (string, error) {
				return a.AcceptVerified(tx, account.Newcomer(n))
			},
			Admit:   func(tx *db.Tx, n signin.Newcomer) (string, error) { return a.Admit(tx, account.Newcomer(n)) },
			SetRole: func(tx *db.Tx, c signin.RoleChange) error { return a.SetRole(tx, account.RoleChange(c)) },
		},
	}
}

// NewUpstream adds a provider to the fixture's organization.
func (f *Fixture) NewUpstream(n upstream.NewUpstream) upstream.Upstream {
	f.T.Helper()
	u, err := f.Provider.Upstreams.Store.Create(f.Ctx, auth.From(f.Ctx), n)
	Must(f.T, err)
	return u
}
