package app

import (
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
		Ring: b.ring, BaseURL: b.addresses.BaseURL, S3URL: b.addresses.S3URL, Now: p.Now,
		Provider: p, Accounts: accounts, SessionMax: b.cfg.SessionMax,
	}
	b.db.Watch(auth.Callers, c.Forget)
	return c
}
