package app

import (
	"context"

	"steward/internal/account"
	"steward/internal/apikey"
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
	clients     *oidc.Store
	signingKeys *oidckeys.Store
	activity    *oidc.Activity
}

// wireOAuth returns the parts of the OAuth slice.
func (b base) wireOAuth(auditLog *audit.Store, accounts *account.Store) oauth {
	clients := &oidc.Store{DB: b.db, Now: b.now, Audit: auditLog.Record, Project: accounts.EnsureProject}
	signingKeys := &oidckeys.Store{DB: b.db, Ring: b.ring, Now: b.now, Log: b.log, Audit: auditLog.Record}
	b.db.Watch(oidc.Cache, clients.Forget)
	b.db.Watch(auth.Callers, clients.Forget)
	b.db.Watch(oidckeys.Cache, signingKeys.Forget)
	return oauth{clients: clients, signingKeys: signingKeys, activity: &oidc.Activity{Store: clients}}
}

// wireProvider returns the OpenID Connect provider. Its Open must be called before it serves.
func (b base) wireProvider(o oauth, u users, apiKeys *apikey.Store) *provider.Provider {
	return &provider.Provider{
		DB: b.db, Ring: b.ring, Now: b.now, Issuer: b.addresses.BaseURL, RequirePKCE: b.cfg.RequirePKCE,
		DPoPNonce: b.cfg.DPoPNonce, SessionIdle: b.cfg.SessionIdle, SessionMax: b.cfg.SessionMax, Clients: o.clients, Keys: o.signingKeys, Note: o.activity.Note,
		Users: u.directory(), OrgName: u.accounts.OrgName, APIKeys: ownKeys(apiKeys), Log: b.log,
		Setup: firstSetup(b.setup(u.accounts)),
	}
}

// setup returns the setup of the installation.
func (b base) setup(accounts *account.Store) *account.Setup {
	return &account.Setup{Store: accounts, Ring: b.ring}
}

// firstSetup returns the setup of the installation as the provider sees it.
func firstSetup(s *account.Setup) signin.Setup {
	return signin.Setup{
		Pending: s.Pending, Check: s.Check,
		Problem: func(a signin.FirstAccount) string { return account.FirstAccount(a).Problem() },
		Complete: func(tx *db.Tx, token string, a signin.FirstAccount, hash string) (string, error) {
			return s.Complete(tx, token, account.FirstAccount(a), hash)
		},
	}
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

// users has who can sign in, and where their sign-ins are recorded.
type users struct {
	accounts *account.Store
	auditLog *audit.Store
}

// directory returns the accounts as the provider sees them.
func (u users) directory() signin.Directory {
	a := u.accounts
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
		RequiredLevel:   a.RequiredLevel,
		Audit:           u.auditLog.RecordUser,
		Role:            a.Role,
		CheckPassword:   account.CheckPassword,
		HashPassword:    account.HashPassword,
		SetPassword:     a.SetPassword,
		HasPassword:     a.HasPassword,
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

// ownKeys returns the API keys of a user as the account page sees them.
func ownKeys(keys *apikey.Store) signin.APIKeys {
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
