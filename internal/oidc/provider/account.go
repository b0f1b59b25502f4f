package provider

import (
	"net/http"

	"steward/internal/oidc/provider/logout"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/selfservice"
)

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

func (p *Provider) newAccount(frames *logout.FrontChannel) accountPages {
	s := p.signin
	page := &selfservice.Page{Now: p.Now, SignIn: s, Sessions: p.sessions, Flows: s.Flows, Pages: p.pages}
	confirmation := selfservice.Confirmation{Passwords: s.Passwords, Attempts: s.Attempts}
	a := accountPages{
		page: page,
		profile: &selfservice.Profile{
			Page: page, DB: p.DB, Accounts: p.Accounts,
		},
		email: &selfservice.Email{
			Page: page, Confirmation: confirmation, DB: p.DB, Accounts: p.Accounts,
		},
		password: &selfservice.Password{
			Page: page, Confirmation: confirmation, DB: p.DB, Accounts: p.Accounts, Passkeys: p.passkeys, Browsers: s.Browsers,
		},
		passkeys: &selfservice.Passkeys{Page: page, DB: p.DB, Accounts: p.Accounts, Passkeys: p.passkeys},
		authenticator: &selfservice.Authenticator{
			Page: page, Confirmation: confirmation, DB: p.DB, Accounts: p.Accounts, Factors: s.Factors,
		},
		providers: &selfservice.Providers{Page: page, DB: p.DB, Accounts: p.Accounts, Federation: p.federation},
		apps:      &selfservice.Apps{Page: page, Clients: p.Clients},
		keys:      &selfservice.Keys{Page: page, Accounts: p.Accounts, APIKeys: p.APIKeys},
		sessions:  &selfservice.Sessions{Page: page, DB: p.DB, FrontChannel: frames},
	}
	page.Sections = []selfservice.Section{
		a.profile, a.email, a.password, a.passkeys, a.authenticator, a.providers, a.apps, a.keys, a.sessions,
	}
	return a
}

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
