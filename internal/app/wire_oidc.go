package app

import (
	"context"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/auth"
	"steward/internal/console"
	"steward/internal/oidc/provider"
)

// wireProvider returns the OpenID Connect provider. Call its Open before it serves.
func (b base) wireProvider(stores *provider.Stores, apiKeys *apikey.Store) *provider.Provider {
	p := provider.New(stores, b.addresses.BaseURL)
	p.APIKeys = apiKeys
	p.RequirePKCE = b.cfg.RequirePKCE
	p.DPoPNonce = b.cfg.DPoPNonce
	p.Registration = b.cfg.Registration
	p.SessionIdle = b.cfg.SessionIdle
	p.SessionMax = b.cfg.SessionMax
	p.Egress = egress(b.cfg, b.addresses).Transport()
	return p
}

// setup returns the installation's setup.
func (b base) setup(accounts *account.Store) *account.Setup {
	return &account.Setup{Store: accounts, Ring: b.ring}
}

// wireConsole returns the console, whose users sign in with the provider.
func (b base) wireConsole(p *provider.Provider, accounts *account.Store) *console.Console {
	c := &console.Console{
		Ring: b.ring, BaseURL: b.addresses.BaseURL, S3URL: b.addresses.S3URL,
		RequireSignIn: p.RequireSignIn, SessionUser: p.SessionUser, SignOut: p.SignOut,
		SessionMax: b.cfg.SessionMax,
		SessionOrg: p.SessionOrg,
		Role:       accounts.Role,
		Orgs: func(ctx context.Context, userID string) ([]string, error) {
			list, err := accounts.OrgsOfUser(ctx, userID)
			ids := make([]string, len(list))
			for i, o := range list {
				ids[i] = o.ID
			}
			return ids, err
		},
	}
	b.db.Watch(auth.Callers, c.Forget)
	return c
}
