package app

import (
	"context"
	"log/slog"
	"time"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/console"
	"steward/internal/db"
	"steward/internal/oidc"
	oidckeys "steward/internal/oidc/keys"
	"steward/internal/oidc/provider"
	"steward/internal/oidc/provider/signin"
	"steward/internal/page"
	"steward/internal/stamp"
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
	cfg config.Config, d *database, baseURL string, o oauth, accounts *account.Store, keys *apikey.Store, lines *audit.Store,
	now func() time.Time,
) *provider.Provider {
	return &provider.Provider{
		DB: d.db, Ring: d.ring, Now: now, Issuer: baseURL, RequirePKCE: cfg.RequirePKCE,
		DPoPNonce: cfg.DPoPNonce, Clients: o.clients, Keys: o.signing, Note: o.activity.Note,
		Users: userDirectory(accounts, lines), OrgName: accounts.OrgName, APIKeys: apiKeys(keys),
	}
}

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

// userDirectory returns the accounts as the provider sees them.
func userDirectory(a *account.Store, lines *audit.Store) signin.Directory {
	return signin.Directory{
		ByEmail: func(ctx context.Context, email string) (oidc.User, error) {
			l, err := a.LoginByEmail(ctx, email)
			return oidc.User(l), err
		},
		ByID: func(ctx context.Context, userID string) (oidc.User, error) {
			l, err := a.LoginByID(ctx, userID)
			return oidc.User(l), err
		},
		Invitation: func(ctx context.Context, token string) (signin.Invitation, error) {
			i, err := a.InvitationOf(ctx, token)
			return signin.Invitation(i), err
		},
		Invited: func(ctx context.Context, token, email string) (oidc.User, error) {
			l, err := a.LoginInvited(ctx, token, email)
			return oidc.User(l), err
		},
		ProfileProblem: func(p signin.Profile) string { return account.UserProfile(p).Problem() },
		SetProfile: func(tx *db.Tx, userID string, p signin.Profile) error {
			return a.SetProfile(tx, userID, account.UserProfile(p))
		},
		Memberships: func(ctx context.Context, userID string) ([]signin.Membership, error) {
			list, err := a.Memberships(ctx, userID)
			out := make([]signin.Membership, len(list))
			for i, m := range list {
				out[i] = signin.Membership(m)
			}
			return out, err
		},
		Audit:           lines.RecordUser,
		Role:            a.Role,
		CheckPassword:   account.CheckPassword,
		HashPassword:    account.HashPassword,
		SetPassword:     a.SetPassword,
		PasswordProblem: account.PasswordProblem,
		MinPassword:     account.MinPassword,
		Register:        a.Register,
		Join:            a.Join,
		Decline:         a.Decline,
		Reset: func(ctx context.Context, token string) (oidc.User, error) {
			l, err := a.ResetOf(ctx, token)
			return oidc.User(l), err
		},
		UseReset: a.UseReset,
	}
}

// apiKeys returns the API keys as the account page sees them.
func apiKeys(keys *apikey.Store) signin.APIKeys {
	return signin.APIKeys{
		List: func(ctx context.Context, caller *auth.Caller, limit int) ([]signin.APIKey, error) {
			own := apikey.Filter{UserID: caller.UserID}
			list, err := keys.List(ctx, caller.OrgID, own, page.Paging{Limit: limit})
			out := make([]signin.APIKey, len(list.Items))
			for i, k := range list.Items {
				out[i] = signin.APIKey{
					ID: k.ID, Name: k.Name, CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, LastUsedAt: k.LastUsedAt,
				}
				if k.Project != nil {
					out[i].Project = k.Project.Name
				}
			}
			return out, err
		},
		Create: func(ctx context.Context, caller *auth.Caller, name string, expires *stamp.Time) (string, error) {
			asked := apikey.NewKey{Name: name}
			if expires != nil {
				asked.ExpiresAt = new(expires.String())
			}
			k, err := asked.Build(caller, keys.Now())
			if err != nil {
				return "", err
			}
			return keys.Create(ctx, caller, k)
		},
		Delete: func(ctx context.Context, caller *auth.Caller, keyID string) error {
			return keys.Delete(ctx, caller, keyID, page.IfMatch{})
		},
	}
}
