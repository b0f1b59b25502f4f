package oidc

import (
	"slices"

	"steward/internal/errs"
	"steward/internal/seal"
)

// AuthMethod names the way a client authenticates.
type AuthMethod string

// The authentication methods. A client with a secret may send it in the header or in the form,
// whichever method it has registered.
const (
	SecretBasic   AuthMethod = "client_secret_basic"
	SecretPost    AuthMethod = "client_secret_post"
	PrivateKeyJWT AuthMethod = "private_key_jwt"
	NoAuth        AuthMethod = "none"
)

// authMethods lists all authentication methods, for the discovery document too.
var authMethods = []AuthMethod{SecretBasic, SecretPost, PrivateKeyJWT, NoAuth}

// AuthMethods returns the names of all authentication methods.
func AuthMethods() []string {
	names := make([]string, len(authMethods))
	for i, m := range authMethods {
		names[i] = string(m)
	}
	return names
}

// hasSecret reports whether clients with this method have a secret.
func (m AuthMethod) hasSecret() bool { return m == SecretBasic || m == SecretPost }

// clientType returns the type that clients with this method have.
func (m AuthMethod) clientType() Type {
	if m == NoAuth {
		return Public
	}
	return Confidential
}

// defaultAuthMethod returns the method for a client that did not choose one.
func defaultAuthMethod(t Type) AuthMethod {
	if t == Public {
		return NoAuth
	}
	return SecretBasic
}

// storedAuthMethod returns a client's method from its columns. If the two disagree, the type wins,
// since an earlier version of the program changes the type alone.
func storedAuthMethod(t Type, stored *string) AuthMethod {
	if stored == nil || AuthMethod(*stored).clientType() != t {
		return defaultAuthMethod(t)
	}
	return AuthMethod(*stored)
}

// secretHash returns the hash to store for a client's secret: nil for a public client, and no bytes for
// one that authenticates with a key. No secret hashes to either.
func secretHash(c Client, secret string) []byte {
	switch {
	case c.ClientType == Public:
		return nil
	case !c.AuthMethod.hasSecret():
		return []byte{}
	}
	return seal.Hash(secret)
}

// setAuthentication copies the type, the method and the keys from the request to the client. If the
// request has only the type or only the method, the other one changes to fit. Sending jwks clears
// jwks_uri and the other way around, and a method without keys clears both.
func (s Settings) setAuthentication(c *Client) {
	if sent := s.ClientType.Ptr(); sent != nil {
		c.ClientType = *sent
		if c.AuthMethod.clientType() != *sent {
			c.AuthMethod = defaultAuthMethod(*sent)
		}
	}
	if sent := s.AuthMethod.Ptr(); sent != nil {
		c.AuthMethod = *sent
		if s.ClientType.Ptr() == nil && slices.Contains(authMethods, *sent) {
			c.ClientType = sent.clientType()
		}
	}
	if s.JWKS.Ptr() != nil || c.AuthMethod != PrivateKeyJWT {
		c.JWKSURI = nil
	}
	if s.JWKSURI.Ptr() != nil || c.AuthMethod != PrivateKeyJWT {
		c.JWKS = nil
	}
	s.JWKS.SetPtr(&c.JWKS)
	s.JWKSURI.SetPtr(&c.JWKSURI)
}

// validateAuthentication checks that a client's type, method and keys fit together.
func (c *Client) validateAuthentication(faults *errs.Faults) {
	if faults.Has("body.client_type") || faults.Has("body.token_endpoint_auth_method") {
		return
	}
	faults.Check(c.AuthMethod.clientType() == c.ClientType, "body.token_endpoint_auth_method",
		"expected none for a public client, and another method for a confidential one")
	if c.AuthMethod != PrivateKeyJWT {
		faults.Check(c.JWKS == nil, "body.jwks", "expected none: keys are for private_key_jwt only")
		faults.Check(c.JWKSURI == nil, "body.jwks_uri", "expected none: keys are for private_key_jwt only")
		return
	}
	faults.Check(c.JWKS != nil || c.JWKSURI != nil, "body.token_endpoint_auth_method",
		"expected another method, or jwks or jwks_uri with the keys of the client")
	faults.Check(c.JWKS == nil || c.JWKSURI == nil, "body.jwks_uri", "expected either jwks or jwks_uri, not both")
}
