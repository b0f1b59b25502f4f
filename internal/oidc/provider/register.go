package provider

import (
	"net/http"

	"steward/internal/oidc/provider/metadata"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/register"
	"steward/internal/oidc/registration"
)

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
