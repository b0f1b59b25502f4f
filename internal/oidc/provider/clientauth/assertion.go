package clientauth

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/stamp"
)

const (
	// assertionType is the client_assertion_type for a JWT (RFC 7523 section 2.2).
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// lifetime limits how far ahead an assertion may expire, and how long ago it may have been issued.
	lifetime = 5 * time.Minute
	// clockSkew is the difference we allow between our clock and a client's.
	clockSkew    = 30 * time.Second
	maxAssertion = 8 << 10
	maxJTI       = 512
)

// algorithms lists the signature algorithms that we accept. All are asymmetric, so that a public key
// can never pass for a shared secret.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.EdDSA}

// Algorithms returns the names of the signature algorithms that we accept.
func Algorithms() []string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		names[i] = string(a)
	}
	return names
}

// verifyAssertion returns the client that signed an assertion, which we accept once. It returns
// oauth.ErrClient unless one of the client's keys made the signature. Only a sender who has the key
// learns about other faults.
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

// problem says why we refuse an assertion's claims at the endpoint with a path, or returns "".
func (a *Authenticator) problem(c *jwt.Claims, path string) string {
	now := a.Now()
	// RFC 9126 section 2 wants other endpoints to accept the token endpoint's URL too.
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

// within reports whether a time falls into a period, allowing for clock skew.
func within(t, from, until time.Time) bool {
	return !t.Before(from.Add(-clockSkew)) && !t.After(until.Add(clockSkew))
}

// verifyKeys reports whether one of the keys made an assertion's signature.
func verifyKeys(keys []jose.JSONWebKey, parsed *jwt.JSONWebToken) bool {
	return slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool {
		return isMeant(k, parsed.Headers[0]) && parsed.Claims(k.Key) == nil
	})
}

// isMeant reports whether a key can have made a signature with this header, going by the id, use and
// algorithm that each may name.
func isMeant(k jose.JSONWebKey, header jose.Header) bool {
	return (header.KeyID == "" || k.KeyID == "" || k.KeyID == header.KeyID) &&
		(k.Use == "" || k.Use == "sig") && (k.Algorithm == "" || k.Algorithm == header.Algorithm)
}

// verify reports whether a client's key signed an assertion.
func (k *Keys) verify(ctx context.Context, c *oidc.Registered, parsed *jwt.JSONWebToken) bool {
	if c.JWKSURI == nil {
		return verifyKeys(c.Keys, parsed)
	}
	return k.find(ctx, c, func(keys []jose.JSONWebKey) bool { return verifyKeys(keys, parsed) })
}

// use stores an assertion and returns an error if it was used before, on any replica. It shares a table
// with DPoP proofs. The two cannot collide, because a proof's hash covers a thumbprint first.
func (a *Authenticator) use(ctx context.Context, c *jwt.Claims) error {
	sum := sha256.Sum256([]byte("client_assertion\x00" + c.Subject + "\x00" + c.ID))
	expires := stamp.Of(c.Expiry.Time()).Add(2 * clockSkew)
	inserted, err := a.DB.Exec(ctx, `INSERT INTO oidc_proofs (proof_hash, expires_at) VALUES ($1, $2)
		ON CONFLICT (proof_hash) DO NOTHING`, sum[:], expires)
	if err != nil {
		return fmt.Errorf("store client assertion: %w", err)
	}
	if inserted == 0 {
		return oauth.NewError(oauth.InvalidClient, "the assertion was used before")
	}
	return nil
}
