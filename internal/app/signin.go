package app

import (
	"context"
	"time"

	"steward/internal/account"
	"steward/internal/oidc/provider"
	"steward/internal/oidc/provider/users"
)

// wireProvider joins the OpenID Connect provider with clients, keys and accounts. It must be opened before it serves.
func wireProvider(cfg Config, o *opened, baseURL string, oauth oauth, accounts *account.Store, now func() time.Time) *provider.Provider {
	return &provider.Provider{
		DB: o.db, Ring: o.ring, Now: now, Issuer: baseURL, RequirePKCE: cfg.RequirePKCE, Clients: oauth.clients, Keys: oauth.signing,
		Note: oauth.activity.Note, Users: usersOf(accounts),
	}
}

// usersOf is the accounts as the provider sees them.
func usersOf(a *account.Store) users.Directory {
	return users.Directory{
		ByEmail: func(ctx context.Context, email string) (users.User, error) {
			l, err := a.LoginByEmail(ctx, email)
			return users.User(l), err
		},
		ByID: func(ctx context.Context, userID string) (users.User, error) {
			l, err := a.LoginByID(ctx, userID)
			return users.User(l), err
		},
		Invitation: func(ctx context.Context, token string) (users.Invitation, error) {
			i, err := a.InvitationOf(ctx, token)
			return users.Invitation(i), err
		},
		Role: a.Role, CheckPassword: account.CheckPassword, HashPassword: account.HashPassword, SetPassword: a.SetPassword, Accept: a.Accept,
	}
}
