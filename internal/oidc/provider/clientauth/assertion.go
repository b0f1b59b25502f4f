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
	// lifetime is how far ahead an assertion may expire, and how long ago it may have been issued.
	lifetime = 5 * time.Minute
	// clockSkew is how much the clock of a client may differ.
	clockSkew    = 30 * time.Second
	maxAssertion = 8 << 10
	maxJTI       = 512
)

// algorithms are the accepted signature algorithms. All of them are asymmetric, so that a public key is
// never taken for a shared secret.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA}

// Algorithms returns the names of the accepted signature algorithms.
func Algorithms() []string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		names[i] = string(a)
	}
	return names
}

// verifyAssertion returns the client that signed an assertion, which is accepted once. It returns
// oauth.ErrClient unless the signature is that of a key of the client, and says what else is wrong to
// whoever has the key.
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

// problem returns what is wrong with the claims of an assertion for the endpoint at a path, or "".
func (a *Authenticator) problem(c *jwt.Claims, path string) string {
	now := a.Now()
	// RFC 9126 section 2 wants the URL of the token endpoint to be accepted at another one.
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

// within reports whether a time is in a period, but for the skew of clocks.
func within(t, from, until time.Time) bool {
	return !t.Before(from.Add(-clockSkew)) && !t.After(until.Add(clockSkew))
}

// verifyKeys reports whether the signature of an assertion is that of one of the keys.
func verifyKeys(keys []jose.JSONWebKey, parsed *jwt.JSONWebToken) bool {
	return slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool {
		return isMeant(k, parsed.Headers[0]) && parsed.Claims(k.Key) == nil
	})
}

// isMeant reports whether a signature with a header can be that of a key, by the id, the use and the algorithm
// that each of them may name.
func isMeant(k jose.JSONWebKey, header jose.Header) bool {
	return (header.KeyID == "" || k.KeyID == "" || k.KeyID == header.KeyID) &&
		(k.Use == "" || k.Use == "sig") && (k.Algorithm == "" || k.Algorithm == header.Algorithm)
}

// verify reports whether an assertion was signed with a key of a client.
func (k *Keys) verify(ctx context.Context, c *oidc.Registered, parsed *jwt.JSONWebToken) bool {
	if c.JWKSURI == nil {
		return verifyKeys(c.Keys, parsed)
	}
	return k.find(ctx, c, func(keys []jose.JSONWebKey) bool { return verifyKeys(keys, parsed) })
}
