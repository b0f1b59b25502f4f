package app

import (
	"context"

	"steward/internal/account"
	"steward/internal/app/datadir"
	"steward/internal/auth"
	"steward/internal/console"
	"steward/internal/oidc/provider"
)

// wireConsole returns the console, whose users sign in with the provider.
func wireConsole(d *database, at datadir.Addresses, signIn *provider.Provider, accounts *account.Store) *console.Console {
	c := &console.Console{
		Ring: d.ring, BaseURL: at.BaseURL, S3URL: at.S3URL,
		RequireSignIn: signIn.RequireSignIn, SessionUser: signIn.SessionUser, SignOut: signIn.SignOut,
		Role: accounts.Role,
		Orgs: func(ctx context.Context, userID string) ([]string, error) {
			list, err := accounts.Memberships(ctx, userID)
			ids := make([]string, len(list))
			for i, m := range list {
				ids[i] = m.OrgID
			}
			return ids, err
		},
	}
	d.db.Watch(auth.Callers, c.Forget)
	return c
}
