// Package jwt owns the provider's signed tokens (access tokens, ID tokens and logout tokens), their
// claims, and their verification.
//
// We sign access tokens with ES256, which is fast, and ID tokens with RS256, which every relying party
// must support (OpenID Connect Core section 15.1). Package introspect checks whether a token was
// revoked.
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

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
)

// ErrInvalid means that this issuer did not sign a token, or that it has expired.
var ErrInvalid = errors.New("the token is invalid")

// Issuer signs tokens and verifies those it has signed.
type Issuer struct {
	url  string
	now  func() time.Time
	keys *keys.Store
	// verified caches the claims of access tokens with a valid signature. We still check each time
	// whether they have expired or were revoked.
	verified db.Cache[verifiedKey, *AccessClaims]
}

// maxVerified caps the access tokens whose claims we keep.
const maxVerified = 10_000

// NewIssuer returns an issuer that names url in its tokens.
func NewIssuer(url string, now func() time.Time, k *keys.Store) *Issuer {
	return &Issuer{url: url, now: now, keys: k, verified: db.Cache[verifiedKey, *AccessClaims]{Max: maxVerified}}
}

// verifiedKey identifies an access token whose signature we verified with a set of keys. It includes
// the set, so that we never find claims after the keys have changed.
type verifiedKey struct {
	keys *keys.Set
	sum  [sha256.Size]byte
}

// Forget drops the claims of verified tokens. Call it when keys.Cache is invalidated.
func (i *Issuer) Forget() { i.verified.Forget() }

// NewAccess returns the claims for a new access token that client c gets for this server. If jkt is not
// empty, the token is bound to the key with that thumbprint.
func (i *Issuer) NewAccess(c *oidc.Registered, subject string, scopes []string, jkt string) *AccessClaims {
	now := i.now()
	a := &AccessClaims{
		Issuer: i.url, Subject: subject, Audience: jwt.Audience{i.url},
		IssuedAt: Date(now), ExpiresAt: Date(now.Add(c.AccessLifetime())),
		ID: id.Secret(22), ClientID: c.ProtocolID(), OrgID: c.OrgID, Scope: strings.Join(scopes, " "), ClientEpoch: c.Epoch,
	}
	if a.ClientID != c.ID {
		a.GrantedTo = c.ID
	}
	if jkt != "" {
		a.Confirm = &Confirmation{JKT: jkt}
	}
	return a
}

// SignAccess signs an access token.
func (i *Issuer) SignAccess(ctx context.Context, a *AccessClaims) (string, error) {
	return i.sign(ctx, keys.ForAccessTokens, a)
}

// NewID returns the claims for a new ID token that client c gets together with an access token.
func (i *Issuer) NewID(c *oidc.Registered, subject string, authTime time.Time, accessToken string) *IDClaims {
	now := i.now()
	return &IDClaims{
		Issuer: i.url, Subject: subject, Audience: jwt.Audience{c.ProtocolID()},
		IssuedAt: Date(now), ExpiresAt: Date(now.Add(c.IDLifetime())),
		AuthTime: Date(authTime), AccessTokenHash: halfHash(accessToken),
	}
}

// SignID signs an ID token.
func (i *Issuer) SignID(ctx context.Context, c *IDClaims) (string, error) {
	return i.sign(ctx, keys.ForIDTokens, c)
}

func (i *Issuer) sign(ctx context.Context, alg jose.SignatureAlgorithm, claims any) (string, error) {
	return i.signAs(ctx, alg, types[alg], claims)
}

// signAs signs a token with a typ in its header.
func (i *Issuer) signAs(ctx context.Context, alg jose.SignatureAlgorithm, typ string, claims any) (string, error) {
	set, err := i.keySet(ctx)
	if err != nil {
		return "", err
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

// VerifyAccess returns the claims in an access token for this server. It returns ErrInvalid if another
// issuer made the token, it is for another audience, or it has expired.
func (i *Issuer) VerifyAccess(ctx context.Context, token string) (*AccessClaims, error) {
	a, err := i.VerifyAnyAccess(ctx, token)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(a.Audience, i.url) {
		return nil, ErrInvalid
	}
	return a, nil
}

// VerifyAnyAccess returns the claims in an access token for any audience. It returns ErrInvalid if
// another issuer made the token or it has expired.
func (i *Issuer) VerifyAnyAccess(ctx context.Context, token string) (*AccessClaims, error) {
	set, err := i.keySet(ctx)
	if err != nil {
		return nil, err
	}
	a, err := i.verified.Get(verifiedKey{set, sha256.Sum256([]byte(token))}, func() (*AccessClaims, error) {
		var a AccessClaims
		return &a, verify(set, token, keys.ForAccessTokens, &a)
	})
	if err != nil {
		return nil, err
	}
	expired := a.ExpiresAt == nil || !i.now().Before(a.ExpiresAt.Time())
	if a.Issuer != i.url || expired {
		return nil, ErrInvalid
	}
	claims := *a
	return &claims, nil
}

// VerifyIDHint returns the claims in an ID token that a client presents as a hint. The token may have
// expired. It returns ErrInvalid if another issuer made the token.
func (i *Issuer) VerifyIDHint(ctx context.Context, token string) (*IDClaims, error) {
	set, err := i.keySet(ctx)
	if err != nil {
		return nil, err
	}
	var c IDClaims
	if err := verify(set, token, keys.ForIDTokens, &c); err != nil {
		return nil, err
	}
	if c.Issuer != i.url {
		return nil, ErrInvalid
	}
	return &c, nil
}

func (i *Issuer) keySet(ctx context.Context) (*keys.Set, error) {
	set, err := i.keys.Set(ctx)
	if err != nil {
		return nil, fmt.Errorf("read signing keys: %w", err)
	}
	return set, nil
}

// types has the typ for tokens signed with each algorithm. An access token's typ keeps an ID token from
// passing as one (RFC 9068).
var types = map[jose.SignatureAlgorithm]string{keys.ForAccessTokens: "at+jwt", keys.ForIDTokens: "JWT"}

// verify checks a token's form, algorithm, type and signature. The caller decides the algorithm, not
// the token, and a key serves only the algorithm that it was made for.
func verify(set *keys.Set, token string, alg jose.SignatureAlgorithm, claims any) error {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{alg})
	if err != nil || len(parsed.Headers) != 1 {
		return ErrInvalid
	}
	header := parsed.Headers[0]
	if got, _ := header.ExtraHeaders[jose.HeaderType].(string); !strings.EqualFold(got, types[alg]) {
		return ErrInvalid
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

// halfHash returns an access token's at_hash: the left half of its SHA-256.
func halfHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
}
