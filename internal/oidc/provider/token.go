package provider

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/id"
)

// Access tokens are ES256, which is fast; ID tokens are RS256, which every relying party must read (OpenID Connect Core section 15.1).
const (
	accessAlg = jose.ES256
	idAlg     = jose.RS256
	// accessType is the `typ` that keeps an ID token from passing as an access token (RFC 9068).
	accessType = "at+jwt"
)

// accessClaims are the claims of an access token (RFC 9068). The last three are ours: they say which grant, which state of the client and
// which state of the consent it rests on, so that revocation needs no list of tokens.
type accessClaims struct {
	Issuer   string           `json:"iss"`
	Subject  string           `json:"sub"`
	Audience jwt.Audience     `json:"aud"`
	Expires  *jwt.NumericDate `json:"exp"`
	Issued   *jwt.NumericDate `json:"iat"`
	ID       string           `json:"jti"`
	ClientID string           `json:"client_id"`
	Scope    string           `json:"scope,omitempty"`
	Org      string           `json:"org"`
	AuthTime *jwt.NumericDate `json:"auth_time,omitempty"`
	Confirm  *confirmation    `json:"cnf,omitempty"`

	Grant        string `json:"grant,omitempty"`
	ClientEpoch  int64  `json:"client_epoch"`
	ConsentEpoch int64  `json:"consent_epoch,omitempty"`
}

// confirmation names the key that a DPoP-bound token is bound to.
type confirmation struct {
	JKT string `json:"jkt"`
}

func (a *accessClaims) scopes() []string { return strings.Fields(a.Scope) }

// user is empty for a token of client_credentials.
func (a *accessClaims) user() string {
	if a.Grant == "" {
		return ""
	}
	return a.Subject
}

// idClaims are the claims of an ID token; what a scope adds is put in beside them.
type idClaims struct {
	Issuer   string           `json:"iss"`
	Subject  string           `json:"sub"`
	Audience jwt.Audience     `json:"aud"`
	Expires  *jwt.NumericDate `json:"exp"`
	Issued   *jwt.NumericDate `json:"iat"`
	AuthTime *jwt.NumericDate `json:"auth_time,omitempty"`
	Nonce    string           `json:"nonce,omitempty"`
	ATHash   string           `json:"at_hash,omitempty"`
	Session  string           `json:"sid,omitempty"`
	profileClaims
}

// newAccess makes the claims that every access token has.
func (p *Provider) newAccess(c *client, subject string, scopes []string, jkt string) *accessClaims {
	now := p.Now()
	a := &accessClaims{
		Issuer: p.Issuer, Subject: subject, Audience: jwt.Audience{p.Issuer}, ClientID: c.ID, Scope: strings.Join(scopes, " "), Org: c.OrgID,
		ID: id.Secret(22), Issued: jwt.NewNumericDate(now), Expires: jwt.NewNumericDate(now.Add(c.AccessLifetime())), ClientEpoch: c.Epoch,
	}
	if jkt != "" {
		a.Confirm = &confirmation{JKT: jkt}
	}
	return a
}

func (p *Provider) sign(ctx context.Context, alg jose.SignatureAlgorithm, typ string, claims any) (string, error) {
	key, err := p.signingKey(ctx, alg)
	if err != nil {
		return "", err
	}
	options := (&jose.SignerOptions{}).WithType(jose.ContentType(typ))
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	if err != nil {
		return "", err
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}

var errToken = errors.New("the token is not valid")

// verify checks form, algorithm, type and signature of a token of ours. The algorithm is ours to choose: what the token says is compared,
// never believed, and a key serves the one algorithm that it was made for.
func (p *Provider) verify(ctx context.Context, token string, alg jose.SignatureAlgorithm, typ string, claims any) error {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{alg})
	if err != nil || len(parsed.Headers) != 1 {
		return errToken
	}
	header := parsed.Headers[0]
	if got, _ := header.ExtraHeaders[jose.HeaderType].(string); !strings.EqualFold(got, typ) {
		return errToken
	}
	key, err := p.publicKey(ctx, alg, header.KeyID)
	if err != nil || key == nil {
		return errors.Join(errToken, err)
	}
	if parsed.Claims(key, claims) != nil {
		return errToken
	}
	return nil
}

// readAccess gives the claims of an access token that is ours and has not expired; whether it was revoked is for live to say.
func (p *Provider) readAccess(ctx context.Context, token string) (*accessClaims, error) {
	var a accessClaims
	if err := p.verify(ctx, token, accessAlg, accessType, &a); err != nil {
		return nil, err
	}
	if a.Issuer != p.Issuer || !slices.Contains(a.Audience, p.Issuer) || a.Expires == nil || !p.Now().Before(a.Expires.Time()) {
		return nil, errToken
	}
	return &a, nil
}

// live tells whether an access token is good at this moment: nothing that it rests on has been revoked.
func (p *Provider) live(ctx context.Context, a *accessClaims) (bool, error) {
	revoked, err := p.isRevoked(ctx, a.Grant, a.ID)
	if err != nil || revoked {
		return false, err
	}
	return p.Clients.Live(ctx, a.ClientID, a.user(), a.ClientEpoch, a.ConsentEpoch)
}

// liveAccess is readAccess and live in one: errToken for anything that is not good.
func (p *Provider) liveAccess(ctx context.Context, token string) (*accessClaims, error) {
	a, err := p.readAccess(ctx, token)
	if err != nil {
		return nil, err
	}
	ok, err := p.live(ctx, a)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errToken
	}
	return a, nil
}

// readIDToken gives the claims of an ID token of ours, whether or not it has expired: as a hint it stays good.
func (p *Provider) readIDToken(ctx context.Context, token string) (*idClaims, bool) {
	var c idClaims
	if err := p.verify(ctx, token, idAlg, "JWT", &c); err != nil || c.Issuer != p.Issuer {
		return nil, false
	}
	return &c, true
}

// halfHash is the `at_hash` of an access token: the left half of its SHA-256.
func halfHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
}

func date(t time.Time) *jwt.NumericDate { return jwt.NewNumericDate(t) }
