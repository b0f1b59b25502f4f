package app

import (
	"context"
	"log/slog"
	"time"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc"
	oidckeys "steward/internal/oidc/keys"
	"steward/internal/oidc/provider"
	"steward/internal/oidc/provider/users"
)

// oauth holds the parts of the OAuth slice that the provider and the loops use.
type oauth struct {
	clients  *oidc.Store
	signing  *oidckeys.Store
	activity *oidc.Activity
}

func wireOAuth(
	d *database, record func(*db.Tx, string, string) error,
	project func(*db.Tx, *auth.Caller, string, string) error, log *slog.Logger, now func() time.Time,
) oauth {
	clients := &oidc.Store{DB: d.db, Now: now, Audit: record, Project: project}
	signing := &oidckeys.Store{DB: d.db, Ring: d.ring, Now: now, Log: log, Audit: record}
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
		DPoPNonce: cfg.DPoPNonce, Clients: o.clients, Keys: o.signing, Note: o.activity.Note, Users: userDirectory(accounts),
		OrgName: accounts.OrgName,
	}
}

// userDirectory returns the accounts as the provider sees them.
func userDirectory(a *account.Store) users.Directory {
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
		Role:            a.Role,
		CheckPassword:   account.CheckPassword,
		HashPassword:    account.HashPassword,
		SetPassword:     a.SetPassword,
		PasswordProblem: account.PasswordProblem,
		Accept:          a.Accept,
		Reset: func(ctx context.Context, token string) (users.User, error) {
			l, err := a.ResetOf(ctx, token)
			return users.User(l), err
		},
		UseReset: a.UseReset,
	}
}
