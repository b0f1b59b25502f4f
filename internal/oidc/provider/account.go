package provider

import (
	"net/http"

	"steward/internal/db"
	"steward/internal/oidc/provider/logout"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/selfservice"
)

// Account is what users manage on their account page, which belongs to other parts of Steward.
type Account struct {
	// NamesProblem returns what is wrong with names, as a sentence, or "".
	NamesProblem func(selfservice.Names) string
	SetNames     func(tx *db.Tx, userID string, n selfservice.Names) error
	// SetPassword replaces the hash of a user's password, or removes the password if that is empty.
	SetPassword func(tx *db.Tx, userID, hash string) error
	APIKeys     selfservice.APIKeys
	// EmailChanges is nil if no mail can be sent.
	EmailChanges *selfservice.EmailChanges
}

// accountPages are the account page and its sections.
type accountPages struct {
	page          *selfservice.Page
	profile       *selfservice.Profile
	email         *selfservice.Email
	password      *selfservice.Password
	passkeys      *selfservice.Passkeys
	authenticator *selfservice.Authenticator
	providers     *selfservice.Providers
	apps          *selfservice.Apps
	keys          *selfservice.Keys
	sessions      *selfservice.Sessions
}

// newAccount returns the account page.
func (p *Provider) newAccount(frames *logout.FrontChannel) accountPages {
	s := p.signin
	page := &selfservice.Page{Now: p.Now, SignIn: s, Sessions: p.sessions, Flows: s.Flows, Pages: p.pages}
	confirmation := selfservice.Confirmation{Passwords: s.Passwords, Attempts: s.Attempts}
	a := accountPages{
		page: page,
		profile: &selfservice.Profile{
			Page: page, DB: p.DB, Users: p.Users, Problem: p.Account.NamesProblem, Set: p.Account.SetNames,
		},
		email: &selfservice.Email{
			Page: page, Confirmation: confirmation, DB: p.DB, Users: p.Users, Changes: p.Account.EmailChanges,
		},
		password: &selfservice.Password{
			Page: page, Confirmation: confirmation, DB: p.DB, Users: p.Users, Passkeys: p.passkeys, Browsers: s.Browsers,
			Set: p.Account.SetPassword,
		},
		passkeys: &selfservice.Passkeys{Page: page, DB: p.DB, Users: p.Users, Passkeys: p.passkeys},
		authenticator: &selfservice.Authenticator{
			Page: page, Confirmation: confirmation, DB: p.DB, Users: p.Users, Factors: s.Factors,
		},
		providers: &selfservice.Providers{Page: page, DB: p.DB, Users: p.Users, Federation: p.federation},
		apps:      &selfservice.Apps{Page: page, Clients: p.Clients},
		keys:      &selfservice.Keys{Page: page, Users: p.Users, APIKeys: p.Account.APIKeys},
		sessions:  &selfservice.Sessions{Page: page, DB: p.DB, Frames: frames.Frames},
	}
	page.Sections = []selfservice.Section{
		a.profile, a.email, a.password, a.passkeys, a.authenticator, a.providers, a.apps, a.keys, a.sessions,
	}
	return a
}

// mountAccount passes the patterns of the account page to handle.
func (p *Provider) mountAccount(handle func(pattern string, h http.Handler)) {
	a := p.account
	page, form := p.pages.Page, p.pages.Form
	signedIn, recent := a.page.SignedIn, a.page.SignedInRecently
	for pattern, handler := range map[string]http.HandlerFunc{
		"GET " + oauth.PathAccount:                    page(signedIn(a.page.Account)),
		"POST " + oauth.PathAccountProfile:            form(signedIn(a.profile.Change)),
		"POST " + oauth.PathAccountEmail:              form(signedIn(a.email.Change)),
		"GET " + oauth.PathAccountEmail + "/{token}":  page(a.email.Link),
		"POST " + oauth.PathAccountEmail + "/{token}": form(signedIn(a.email.Use)),
		"POST " + oauth.PathAccountPassword:           form(signedIn(a.password.Change)),
		"POST " + oauth.PathAccountNoPassword:         form(recent(a.password.Remove)),
		"GET " + oauth.PathAccountPasskeys:            page(recent(a.passkeys.New)),
		"POST " + oauth.PathAccountPasskeys:           form(recent(a.passkeys.Add)),
		"POST " + oauth.PathAccountPasskeyName:        form(signedIn(a.passkeys.Rename)),
		"POST " + oauth.PathAccountPasskeyGone:        form(recent(a.passkeys.Remove)),
		"GET " + oauth.PathAccountFactor:              page(recent(a.authenticator.New)),
		"POST " + oauth.PathAccountFactor:             form(recent(a.authenticator.Add)),
		"POST " + oauth.PathAccountFactorGone:         form(recent(a.authenticator.Remove)),
		"POST " + oauth.PathAccountRecovery:           form(recent(a.authenticator.NewRecoveryCodes)),
		"POST " + oauth.PathAccountUpstream:           form(recent(a.providers.Link)),
		"POST " + oauth.PathAccountUnlink:             form(signedIn(a.providers.Unlink)),
		"POST " + oauth.PathAccountApps:               form(signedIn(a.apps.Disconnect)),
		"POST " + oauth.PathAccountKeys:               form(recent(a.keys.Create)),
		"POST " + oauth.PathAccountKeyDelete:          form(recent(a.keys.Delete)),
		"POST " + oauth.PathAccountSessions:           form(signedIn(a.sessions.End)),
		"POST " + oauth.PathAccountSignOut:            form(signedIn(a.sessions.SignOutEverywhere)),
	} {
		handle(pattern, handler)
	}
}
