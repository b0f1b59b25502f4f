package clientauth

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
)

const (
	// assertionType is the value of client_assertion_type for a JWT (RFC 7523 section 2.2).
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// lifetime bounds how far ahead an assertion may expire, and how long ago it may have been issued.
	lifetime = 5 * time.Minute
	// clockSkew is the difference that we allow between a client's clock and ours.
	clockSkew    = 30 * time.Second
	maxAssertion = 8 << 10
	maxJTI       = 512
)

// algorithms are the signature algorithms that we accept. All are asymmetric, so nobody can pass a public
// key off as a shared secret.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA}

// Algorithms returns the names of the signature algorithms that we accept.
func Algorithms() []string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		names[i] = string(a)
	}
	return names
}

// verifyAssertion returns the client that signed an assertion. It accepts each assertion once. Unless one
// of the client's keys verifies the signature, it returns oauth.ErrClient and no details: only a sender
// who holds the key learns about other faults.
func (a *Authenticator) verifyAssertion(r *http.Request, sent credentials) (*oidc.Registered, error) {
	if len(sent.assertion) > maxAssertion {
		return nil, oauth.ErrClient
	}
	parsed, err := jwt.ParseSigned(sent.assertion, algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return nil, oauth.ErrClient
	}
	var claims jwt.Claims
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		return nil, oauth.ErrClient
	}
	if sent.id != "" && sent.id != claims.Subject {
		return nil, oauth.NewError(oauth.InvalidRequest, "client_id is not the client that authenticates")
	}
	c, err := a.Clients.Accept(r.Context(), claims.Subject, func(c *oidc.Registered) bool {
		return c.AuthMethod == oidc.PrivateKeyJWT && c.ProtocolID() == claims.Subject && a.Keys.verify(r.Context(), c, parsed)
	})
	if errs.KindOf(err) == errs.Unauthorized {
		return nil, oauth.ErrClient
	}
	if err != nil {
		return nil, err
	}
	if problem := a.problem(&claims, r.URL.Path); problem != "" {
		return nil, oauth.NewError(oauth.InvalidClient, problem)
	}
	return c, a.use(r.Context(), &claims)
}

// problem explains why an assertion's claims do not suit the endpoint at path. It returns "" if they do.
func (a *Authenticator) problem(c *jwt.Claims, path string) string {
	now := a.Now()
	// RFC 9126 section 2 asks us to accept the token endpoint's URL at another endpoint too.
	audiences := []string{a.Issuer, a.Issuer + path, a.Issuer + oauth.PathToken}
	switch {
	case c.Issuer != c.Subject:
		return "the iss and the sub of the assertion must be the client id"
	case !slices.ContainsFunc(c.Audience, func(aud string) bool { return slices.Contains(audiences, aud) }):
		return "the aud of the assertion must be the issuer or the URL of this endpoint"
	case c.Expiry == nil || c.Expiry.Time().Before(now.Add(-clockSkew)):
		return "the assertion has expired or has no exp"
	case c.Expiry.Time().After(now.Add(lifetime + clockSkew)):
		return "the exp of the assertion must be at most 5 minutes ahead"
	case c.IssuedAt != nil && !within(c.IssuedAt.Time(), now.Add(-lifetime), now):
		return "the iat of the assertion is not recent"
	case c.NotBefore != nil && c.NotBefore.Time().After(now.Add(clockSkew)):
		return "the assertion is not valid yet"
	case c.ID == "" || len(c.ID) > maxJTI:
		return "the assertion must have a jti of at most 512 characters"
	}
	return ""
}

// within reports whether t lies between from and until, give or take clockSkew.
func within(t, from, until time.Time) bool {
	return !t.Before(from.Add(-clockSkew)) && !t.After(until.Add(clockSkew))
}

// verifyKeys reports whether one of the keys verifies an assertion's signature.
func verifyKeys(keys []jose.JSONWebKey, parsed *jwt.JSONWebToken) bool {
	return slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool {
		return isMeant(k, parsed.Headers[0]) && parsed.Claims(k.Key) == nil
	})
}

// isMeant reports whether a key may have made a signature with this header: the id, use and algorithm
// must agree where both name them.
func isMeant(k jose.JSONWebKey, header jose.Header) bool {
	return (header.KeyID == "" || k.KeyID == "" || k.KeyID == header.KeyID) &&
		(k.Use == "" || k.Use == "sig") && (k.Algorithm == "" || k.Algorithm == header.Algorithm)
}

// verify reports whether one of a client's keys signed an assertion.
func (k *Keys) verify(ctx context.Context, c *oidc.Registered, parsed *jwt.JSONWebToken) bool {
	if c.JWKSURI == nil {
		return verifyKeys(c.Keys, parsed)
	}
	return k.find(ctx, c, func(keys []jose.JSONWebKey) bool { return verifyKeys(keys, parsed) })
}
