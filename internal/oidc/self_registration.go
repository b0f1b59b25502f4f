package oidc

import (
	"net/url"
	"strings"

	"steward/internal/errs"
)

// Registration is how a client registered itself (RFC 7591). It is empty for a client that a user created.
//
// A client that registered itself gets codes and refresh tokens only, its users are members of its
// organization unless an admin opens it, they are asked for their consent each time, and it is deleted when
// it is not used.
type Registration string

const (
	// WithToken is the registration with an initial access token.
	WithToken Registration = "token"
	// Anonymous is the registration by anybody. Such a client is public and redirects to loopback addresses
	// only: to programs on the machine of its user.
	Anonymous Registration = "anonymous"
	// ByDocument is the registration by a document that a user's sign-in has led to (Document).
	ByDocument Registration = "document"
)

// RegistrableGrantTypes returns the grant types of clients that register themselves.
func RegistrableGrantTypes() []string { return defaultGrantTypes() }

// DefaultScopes returns the scopes of a client that does not name any. None of them is of the API.
func DefaultScopes() []string { return defaultScopes() }

// validateRegistration checks what a client that registered itself may not be, whoever changes it.
func (c *Client) validateRegistration(faults *errs.Faults) {
	if c.Registration == "" {
		return
	}
	for i, name := range c.GrantTypes {
		g, known := GrantTypeNamed(name)
		faults.Check(!known || g.Default, entry("body.grant_types", i), "expected one of %s, since the client registered itself",
			strings.Join(RegistrableGrantTypes(), ", "))
	}
	switch c.Registration {
	case Anonymous:
		c.validateAnonymous(faults)
	case ByDocument:
		c.validateDocument(faults)
	}
}

func (c *Client) validateAnonymous(faults *errs.Faults) {
	faults.Check(c.AuthMethod == NoAuth, "body.token_endpoint_auth_method",
		"expected none: a client that anybody can register is public")
	validateLoopback(faults, "body.redirect_uris", c.RedirectURIs)
	validateLoopback(faults, "body.post_logout_redirect_uris", c.PostLogoutRedirectURIs)
	faults.Check(c.BackchannelLogoutURI == nil, "body.backchannel_logout_uri", "expected none: anybody can register the client")
	faults.Check(c.FrontchannelLogoutURI == nil, "body.frontchannel_logout_uri", "expected none: anybody can register the client")
}

func validateLoopback(faults *errs.Faults, location string, uris []string) {
	for i, uri := range uris {
		if i == maxURIs {
			return // too many, which is another fault
		}
		u, err := url.Parse(uri)
		faults.Check(err == nil && u.Scheme == "http" && isLocal(u.Hostname()), entry(location, i),
			"expected http and a loopback address or localhost: anybody can register the client")
	}
}
