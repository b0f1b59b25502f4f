package app

import (
	"context"
	"time"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc"
	oidckeys "steward/internal/oidc/keys"
	"steward/internal/oidc/provider"
)

// oauth holds the parts of the OAuth slice that the provider and the loops use.
type oauth struct {
	clients  *oidc.Store
	signing  *oidckeys.Store
	activity *oidc.Activity
}

func wireOAuth(
	d *database, record func(*db.Tx, string, string) error,
	project func(*db.Tx, *auth.Caller, string, string) error, now func() time.Time,
) oauth {
	clients := &oidc.Store{DB: d.db, Now: now, Audit: record, Project: project}
	signing := &oidckeys.Store{DB: d.db, Ring: d.ring, Now: now, Audit: record}
	d.db.Watch(oidc.Cache, clients.Forget)
	d.db.Watch(auth.Callers, clients.Forget)
	d.db.Watch(oidckeys.Cache, signing.Forget)
	return oauth{clients: clients, signing: signing, activity: &oidc.Activity{Store: clients}}
}

// wireProvider returns the OpenID Connect provider. Its Open must be called before it serves.
func wireProvider(
	cfg Config, d *database, baseURL string, o oauth, accounts *account.Store, now func() time.Time,
) *provider.Provider {
	return &provider.Provider{
		DB: d.db, Ring: d.ring, Now: now, Issuer: baseURL, RequirePKCE: cfg.RequirePKCE,
		Clients: o.clients, Keys: o.signing, Note: o.activity.Note, Users: users(accounts),
	}
}

// users returns the accounts as the provider sees them.
func users(a *account.Store) provider.Users {
	return provider.Users{
		ByEmail: func(ctx context.Context, email string) (provider.User, error) {
			l, err := a.LoginByEmail(ctx, email)
			return provider.User(l), err
		},
		ByID: func(ctx context.Context, userID string) (provider.User, error) {
			l, err := a.LoginByID(ctx, userID)
			return provider.User(l), err
		},
		Invitation: func(ctx context.Context, token string) (provider.Invitation, error) {
			i, err := a.InvitationOf(ctx, token)
			return provider.Invitation(i), err
		},
		Role:          a.Role,
		CheckPassword: account.CheckPassword,
		HashPassword:  account.HashPassword,
		SetPassword:   a.SetPassword,
		Accept:        a.Accept,
	}
}
