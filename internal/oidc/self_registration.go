package oidc

import (
	"net/url"
	"strings"

	"steward/internal/errs"
)

// Registration says how a client registered itself (RFC 7591). It is empty if a user created the
// client.
//
// A client that registered itself gets codes and refresh tokens only. Its users must be members of its
// organization unless an admin opens it, and we ask them for consent each time. We delete it if nobody
// uses it.
type Registration string

const (
	// WithToken clients presented an initial access token.
	WithToken Registration = "token"
	// Anonymous clients presented nothing: anybody can register them. They are public and redirect to
	// loopback addresses only, so only to programs on the user's own machine.
	Anonymous Registration = "anonymous"
	// ByDocument clients are described by a Document, which we found when a user signed in.
	ByDocument Registration = "document"
)

// RegistrableGrantTypes returns the grant types that clients may register themselves for.
func RegistrableGrantTypes() []string { return defaultGrantTypes() }

// DefaultScopes returns the scopes for a client that names none. None of them gives access to our API.
func DefaultScopes() []string { return defaultScopes() }

// validateRegistration checks the limits on clients that registered themselves. They hold whoever
// changes the client.
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
