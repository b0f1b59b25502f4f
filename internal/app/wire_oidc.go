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
	"steward/internal/oidc/provider/links"
	"steward/internal/oidc/provider/password"
	"steward/internal/oidc/provider/selfservice"
	"steward/internal/oidc/provider/signin"
	"steward/internal/oidc/registration"
	"steward/internal/page"
	"steward/internal/stamp"
)

// oauth holds the parts of the OAuth slice that the provider and the loops use.
type oauth struct {
	clients       *oidc.Store
	registrations *registration.Store
	signingKeys   *oidckeys.Store
	activity      *oidc.Activity
}

// wireOAuth returns the parts of the OAuth slice.
func (b base) wireOAuth(auditLog *audit.Store, accounts *account.Store) oauth {
	clients := &oidc.Store{DB: b.db, Now: b.now, Audit: auditLog.Record, Project: accounts.EnsureProject, LockOrg: account.LockOrg}
	signingKeys := &oidckeys.Store{DB: b.db, Ring: b.ring, Now: b.now, Log: b.log, Audit: auditLog.Record}
	b.db.Watch(oidc.Cache, clients.Forget)
	b.db.Watch(auth.Callers, clients.Forget)
	b.db.Watch(oidckeys.Cache, signingKeys.Forget)
	registrations := &registration.Store{DB: b.db, Now: b.now, Audit: auditLog.Record, LockOrg: account.LockOrg}
	return oauth{
		clients: clients, registrations: registrations, signingKeys: signingKeys, activity: &oidc.Activity{Store: clients},
	}
}

// wireProvider returns the OpenID Connect provider. Its Open must be called before it serves.
func (b base) wireProvider(o oauth, u users, apiKeys *apikey.Store) *provider.Provider {
	return &provider.Provider{
		DB: b.db, Ring: b.ring, Now: b.now, Issuer: b.addresses.BaseURL, RequirePKCE: b.cfg.RequirePKCE,
		DPoPNonce: b.cfg.DPoPNonce, SessionIdle: b.cfg.SessionIdle, SessionMax: b.cfg.SessionMax, Clients: o.clients, Keys: o.signingKeys, Note: o.activity.Note,
		Users: u.directory(), OrgName: u.accounts.OrgName, Log: b.log,
		Setup: firstSetup(b.setup(u.accounts)), Registration: b.cfg.Registration, Tokens: o.registrations,
		FirstOrg: firstOrg(u.accounts), Resets: u.resets(), Account: u.accountPage(apiKeys),
		Answers: links.Answers{
			Register: u.accounts.Register, Join: u.accounts.Join, Claim: u.accounts.Claim, Decline: u.accounts.Decline,
		},
		Passwords: password.Policy{
			Compare: account.CheckPassword, Derive: account.HashPassword, Problem: account.PasswordProblem,
			MinLength: account.MinPassword,
		},
	}
}

// firstOrg returns a function that returns the oldest organization.
func firstOrg(accounts *account.Store) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		first, _, err := accounts.FirstOrg(ctx)
		return first, err
	}
}

// setup returns the setup of the installation.
func (b base) setup(accounts *account.Store) *account.Setup {
	return &account.Setup{Store: accounts, Ring: b.ring}
}

// firstSetup returns the setup of the installation as the provider sees it.
func firstSetup(s *account.Setup) links.Installation {
	return links.Installation{
		Pending: s.Pending, Check: s.Check,
		Problem: func(a links.FirstAccount) string { return account.FirstAccount(a).Problem() },
		Complete: func(tx *db.Tx, token string, a links.FirstAccount, hash string) (string, error) {
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
		Memberships: func(ctx context.Context, userID string) ([]signin.Membership, error) {
			list, err := a.Memberships(ctx, userID)
			out := make([]signin.Membership, len(list))
			for i, m := range list {
				out[i] = signin.Membership(m)
			}
			return out, err
		},
		RequiredLevel: a.RequiredLevel,
		Audit:         u.auditLog.RecordUser,
		Role:          a.Role,
		PasswordHash:  a.PasswordHash,
		ProveEmail:    a.ProveEmail,
	}
}

// resets returns the links that reset passwords as the provider sees them.
func (u users) resets() links.ResetLinks {
	return links.ResetLinks{
		Get: func(ctx context.Context, token string) (oidc.User, error) {
			l, err := u.accounts.ResetOf(ctx, token)
			return oidc.User(l), err
		},
		Use: u.accounts.UseReset,
	}
}

// accountPage returns what users manage on their account page.
func (u users) accountPage(apiKeys *apikey.Store) provider.Account {
	return provider.Account{
		NamesProblem: func(n selfservice.Names) string { return account.UserProfile(n).Problem() },
		SetNames: func(tx *db.Tx, userID string, n selfservice.Names) error {
			return u.accounts.SetProfile(tx, userID, account.UserProfile(n))
		},
		SetPassword: u.accounts.SetPassword,
		APIKeys:     ownKeys(apiKeys),
	}
}

// ownKeys returns the API keys of a user as the account page sees them.
func ownKeys(keys *apikey.Store) selfservice.APIKeys {
	return selfservice.APIKeys{
		List: func(ctx context.Context, caller *auth.Caller, limit int) ([]selfservice.APIKey, error) {
			own := apikey.Filter{UserID: caller.UserID}
			list, err := keys.List(ctx, caller.OrgID, own, page.Paging{Limit: limit})
			out := make([]selfservice.APIKey, len(list.Items))
			for i, k := range list.Items {
				out[i] = selfservice.APIKey{
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
