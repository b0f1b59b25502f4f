// Package jwt owns the signed tokens of the provider: access tokens and ID tokens, their claims, and
// their verification. Besides base packages it imports oauth, oidc and oidc/keys.
//
// Access tokens are signed with ES256, which is fast; ID tokens with RS256, which every relying party
// must support (OpenID Connect Core section 15.1). Whether a token was revoked is not decided here.
package jwt

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/id"
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
)

const (
	// accessType is the typ of access tokens. It prevents that an ID token passes as one (RFC 9068).
	accessType = "at+jwt"
	idType     = "JWT"
)

// ErrInvalid is returned for a token that this issuer did not sign, or that has expired.
var ErrInvalid = errors.New("the token is invalid")

// Issuer signs tokens and verifies those that it signed.
type Issuer struct {
	URL  string
	Now  func() time.Time
	Keys *keys.Store
}

// NewAccess returns the claims of a new access token of client c for this server. The token is
// bound to the key with thumbprint jkt, if that is not empty.
func (i *Issuer) NewAccess(c *oidc.Registered, subject string, scopes []string, jkt string) *AccessClaims {
	now := i.Now()
	a := &AccessClaims{
		Issuer: i.URL, Subject: subject, Audience: jwt.Audience{i.URL},
		IssuedAt: Date(now), ExpiresAt: Date(now.Add(c.AccessLifetime())),
		ID: id.Secret(22), ClientID: c.ID, OrgID: c.OrgID, Scope: strings.Join(scopes, " "), ClientEpoch: c.Epoch,
	}
	if jkt != "" {
		a.Confirm = &Confirmation{JKT: jkt}
	}
	return a
}

// SignAccess signs an access token.
func (i *Issuer) SignAccess(ctx context.Context, a *AccessClaims) (string, error) {
	return i.sign(ctx, keys.ForAccessTokens, accessType, a)
}

// NewID returns the claims of a new ID token of client c that is issued together with an access token.
func (i *Issuer) NewID(c *oidc.Registered, subject string, authTime time.Time, accessToken string) *IDClaims {
	now := i.Now()
	return &IDClaims{
		Issuer: i.URL, Subject: subject, Audience: jwt.Audience{c.ID},
		IssuedAt: Date(now), ExpiresAt: Date(now.Add(c.IDLifetime())),
		AuthTime: Date(authTime), AccessTokenHash: halfHash(accessToken),
	}
}

// SignID signs an ID token.
func (i *Issuer) SignID(ctx context.Context, c *IDClaims) (string, error) {
	return i.sign(ctx, keys.ForIDTokens, idType, c)
}

func (i *Issuer) sign(ctx context.Context, alg jose.SignatureAlgorithm, typ string, claims any) (string, error) {
	set, err := i.Keys.Set(ctx)
	if err != nil {
		return "", fmt.Errorf("read signing keys: %w", err)
	}
	kid, key := set.Signing(alg)
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{KeyID: kid, Key: key, Algorithm: string(alg)}},
		(&jose.SignerOptions{}).WithType(jose.ContentType(typ)),
	)
	if err != nil {
		return "", fmt.Errorf("make signer: %w", err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return token, nil
}

// VerifyAccess returns the claims of an access token for this server. It returns ErrInvalid if the
// token is not one of this issuer, is for another audience, or has expired.
func (i *Issuer) VerifyAccess(ctx context.Context, token string) (*AccessClaims, error) {
	a, err := i.VerifyAnyAccess(ctx, token)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(a.Audience, i.URL) {
		return nil, ErrInvalid
	}
	return a, nil
}

// VerifyAnyAccess returns the claims of an access token for any audience. It returns ErrInvalid if the
// token is not one of this issuer or has expired.
func (i *Issuer) VerifyAnyAccess(ctx context.Context, token string) (*AccessClaims, error) {
	var a AccessClaims
	if err := i.verify(ctx, token, keys.ForAccessTokens, accessType, &a); err != nil {
		return nil, err
	}
	expired := a.ExpiresAt == nil || !i.Now().Before(a.ExpiresAt.Time())
	if a.Issuer != i.URL || expired {
		return nil, ErrInvalid
	}
	return &a, nil
}

// VerifyIDHint returns the claims of an ID token that is presented as a hint, for which it does not
// matter whether it has expired. It returns ErrInvalid if the token is not one of this issuer.
func (i *Issuer) VerifyIDHint(ctx context.Context, token string) (*IDClaims, error) {
	var c IDClaims
	if err := i.verify(ctx, token, keys.ForIDTokens, idType, &c); err != nil {
		return nil, err
	}
	if c.Issuer != i.URL {
		return nil, ErrInvalid
	}
	return &c, nil
}

// verify checks form, algorithm, type and signature of a token. The caller decides the algorithm, not
// the token, and a key serves only the algorithm that it was made for.
func (i *Issuer) verify(ctx context.Context, token string, alg jose.SignatureAlgorithm, typ string, claims any) error {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{alg})
	if err != nil || len(parsed.Headers) != 1 {
		return ErrInvalid
	}
	header := parsed.Headers[0]
	if got, _ := header.ExtraHeaders[jose.HeaderType].(string); !strings.EqualFold(got, typ) {
		return ErrInvalid
	}
	set, err := i.Keys.Set(ctx)
	if err != nil {
		return fmt.Errorf("read signing keys: %w", err)
	}
	for _, k := range set.JWKS().Keys {
		if k.KeyID == header.KeyID && k.KeyID != "" && k.Algorithm == string(alg) {
			if parsed.Claims(k.Key, claims) != nil {
				return ErrInvalid
			}
			return nil
		}
	}
	return ErrInvalid
}

// Date returns a time as a claim.
func Date(t time.Time) *jwt.NumericDate { return jwt.NewNumericDate(t) }

// halfHash returns the at_hash of an access token: the left half of its SHA-256.
func halfHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
}
