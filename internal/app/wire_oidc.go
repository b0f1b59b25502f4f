package app

import (
	"context"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/console"
	"steward/internal/oidc"
	oidckeys "steward/internal/oidc/keys"
	"steward/internal/oidc/provider"
	"steward/internal/oidc/provider/password"
	"steward/internal/oidc/registration"
)

// oauth holds the parts of the OAuth slice that the provider and the loops use.
type oauth struct {
	clients       *oidc.Store
	registrations *registration.Store
	signingKeys   *oidckeys.Store
	activity      *oidc.Activity
}

// wireOAuth returns the OAuth slice's parts.
func (b base) wireOAuth(auditLog *audit.Store, accounts *account.Store) oauth {
	clients := &oidc.Store{DB: b.db, Now: b.now, Audit: auditLog, Accounts: accounts}
	signingKeys := &oidckeys.Store{DB: b.db, Ring: b.ring, Now: b.now, Log: b.log, Audit: auditLog}
	b.db.Watch(oidc.Cache, clients.Forget)
	b.db.Watch(auth.Callers, clients.Forget)
	b.db.Watch(oidckeys.Cache, signingKeys.Forget)
	registrations := &registration.Store{DB: b.db, Now: b.now, Audit: auditLog}
	return oauth{
		clients: clients, registrations: registrations, signingKeys: signingKeys, activity: &oidc.Activity{Store: clients},
	}
}

// wireProvider returns the OpenID Connect provider. Call its Open before it serves.
func (b base) wireProvider(o oauth, accounts *account.Store, apiKeys *apikey.Store) *provider.Provider {
	return &provider.Provider{
		DB: b.db, Ring: b.ring, Now: b.now, Issuer: b.addresses.BaseURL, RequirePKCE: b.cfg.RequirePKCE,
		DPoPNonce: b.cfg.DPoPNonce, SessionIdle: b.cfg.SessionIdle, SessionMax: b.cfg.SessionMax, Clients: o.clients, Keys: o.signingKeys, Note: o.activity.Note,
		Accounts: accounts, APIKeys: apiKeys, Log: b.log, Registration: b.cfg.Registration, Tokens: o.registrations,
		Passwords: password.Policy{
			Compare: account.CheckPassword, Derive: account.HashPassword, Problem: account.PasswordProblem,
			MinLength: account.MinPassword,
		},
	}
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
