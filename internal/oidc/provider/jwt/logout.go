package jwt

import (
	"context"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/id"
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
)

const (
	// LogoutLifetime is how long a logout token is valid. OpenID Connect Back-Channel Logout 1.0
	// recommends this value.
	LogoutLifetime = 2 * time.Minute

	logoutType  = "logout+jwt"
	logoutEvent = "http://schemas.openid.net/event/backchannel-logout"
)

// logoutClaims are a logout token's claims. It has no nonce, so that it cannot pass as an ID token.
type logoutClaims struct {
	Issuer    string              `json:"iss"`
	Subject   string              `json:"sub"`
	Audience  jwt.Audience        `json:"aud"`
	IssuedAt  *jwt.NumericDate    `json:"iat"`
	ExpiresAt *jwt.NumericDate    `json:"exp"`
	ID        string              `json:"jti"`
	SessionID string              `json:"sid"`
	Events    map[string]struct{} `json:"events"`
}

// SignLogout returns a new logout token, which tells client c that a user's session has ended.
func (i *Issuer) SignLogout(ctx context.Context, c *oidc.Registered, userID, sessionID string) (string, error) {
	now := i.now()
	return i.signAs(ctx, keys.ForIDTokens, logoutType, &logoutClaims{
		Issuer: i.url, Subject: userID, Audience: jwt.Audience{c.ID},
		IssuedAt: Date(now), ExpiresAt: Date(now.Add(LogoutLifetime)), ID: id.Secret(22), SessionID: sessionID,
		Events: map[string]struct{}{logoutEvent: {}},
	})
}
