package provider

import (
	"net/http"

	"steward/internal/account"
	"steward/internal/oidc/provider/federation"
	"steward/internal/oidc/provider/links"
	"steward/internal/oidc/provider/metadata"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/register"
	"steward/internal/oidc/registration"
	"steward/internal/oidc/upstream"
)

type linkPages struct {
	invitations *links.Invitations
	resets      *links.Resets
	setup       *links.Setup
}

func (p *Provider) newLinks() linkPages {
	s := p.signin
	return linkPages{
		invitations: &links.Invitations{
			DB: p.DB, SignIn: s, Accounts: p.Accounts, Sessions: p.sessions, Flows: s.Flows, Pages: p.pages,
			Passwords: s.Passwords, Passkeys: p.passkeys, Attempts: s.Attempts, Upstreams: s.Upstreams,
		},
		resets: &links.Resets{
			DB: p.DB, Now: p.Now, SignIn: s, Accounts: p.Accounts, Flows: s.Flows, Pages: p.pages,
			Passwords: s.Passwords, Attempts: s.Attempts,
		},
		setup: &links.Setup{
			Installation: &account.Setup{Store: p.Accounts, Ring: p.Ring}, SignIn: s, Flows: s.Flows, Pages: p.pages,
			Passwords: s.Passwords, Passkeys: p.passkeys, Attempts: s.Attempts,
		},
	}
}

// newFederation returns the sign-in with other providers. The account page stores the accounts that
// users link.
func (p *Provider) newFederation() *federation.Handler {
	s := p.signin
	return &federation.Handler{
		Now: p.Now, SignIn: s, Sessions: p.sessions, Flows: s.Flows, Pages: p.pages, Attempts: s.Attempts,
		Upstreams: p.Upstreams,
		Client:    upstream.NewRelyingParty(p.Egress, p.Issuer+upstream.PathCallback, p.Now),
	}
}

// mountSignIn passes the patterns of the sign-in, and of the links that end with one, to handle.
func (p *Provider) mountSignIn(handle func(pattern string, h http.Handler)) {
	page, form := p.pages.Page, p.pages.Form
	invitation := oauth.PathInvitation + "{token}"
	for pattern, handler := range map[string]http.HandlerFunc{
		"POST " + oauth.PathSignIn:             form(p.signin.Password),
		"POST " + oauth.PathSignInPasskey:      form(p.signin.Passkey),
		"POST " + oauth.PathSignInFactor:       form(p.signin.Factor),
		"POST " + oauth.PathSignInEnrol:        form(p.signin.Enrol),
		"POST " + oauth.PathSignInEnrolPasskey: form(p.signin.EnrolPasskey),
		"GET " + oauth.PathPasskeyScript:       p.pages.Script,

		"POST " + upstream.PathSignIn:          form(p.federation.Start),
		"GET " + upstream.PathSignIn + "/{id}": page(p.federation.Link),
		"GET " + upstream.PathCallback:         page(p.federation.Callback),

		"GET " + invitation:                   page(p.links.invitations.Page),
		"POST " + invitation:                  form(p.links.invitations.Answer),
		"GET " + invitation + "/passkey":      page(p.links.invitations.PasskeyPage),
		"POST " + invitation + "/passkey":     form(p.links.invitations.RegisterPasskey),
		"GET " + oauth.PathForgot:             page(p.links.resets.Forgot),
		"POST " + oauth.PathForgot:            form(p.links.resets.Request),
		"GET " + oauth.PathReset + "{token}":  page(p.links.resets.Page),
		"POST " + oauth.PathReset + "{token}": form(p.links.resets.Use),
		"GET " + oauth.PathSetup:              page(p.links.setup.Page),
		"POST " + oauth.PathSetup:             form(p.links.setup.Password),
		"POST " + oauth.PathSetupPasskey:      form(p.links.setup.Passkey),
	} {
		handle(pattern, handler)
	}
}

// newRegister returns the registration endpoint's handler, or nil if nobody may register clients.
func (p *Provider) newRegister() *register.Handler {
	if p.Registration == "" || p.Registration == registration.Off {
		return nil
	}
	return &register.Handler{
		Now: p.Now, Issuer: p.Issuer, Mode: p.Registration, Clients: p.Clients, Tokens: p.Registrations, Accounts: p.Accounts,
	}
}

// mountRegister passes the registration endpoint's patterns to handle, if there is one.
func (p *Provider) mountRegister(handle func(pattern string, h http.Handler)) {
	if p.register == nil {
		return
	}
	cors, preflight := metadata.CORS, metadata.CORS(register.Preflight)
	client := oauth.PathRegister + "/{client_id}"
	handle("POST "+oauth.PathRegister, cors(p.register.Register))
	handle("OPTIONS "+oauth.PathRegister, preflight)
	handle("GET "+client, cors(p.register.Get))
	handle("PUT "+client, cors(p.register.Update))
	handle("DELETE "+client, cors(p.register.Delete))
	handle("OPTIONS "+client, preflight)
}
