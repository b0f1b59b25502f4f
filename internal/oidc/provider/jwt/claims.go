package jwt

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/id"
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
	"steward/internal/oidc/provider/oauth"
)

// AccessClaims are an access token's claims (RFC 9068). Three of them name the grant, the client's
// epoch and the consent's epoch that the token is based on, so that revoking any of these needs no list
// of tokens.
type AccessClaims struct {
	Issuer    string           `json:"iss"`
	Subject   string           `json:"sub"`
	Audience  jwt.Audience     `json:"aud"`
	ExpiresAt *jwt.NumericDate `json:"exp"`
	IssuedAt  *jwt.NumericDate `json:"iat"`
	ID        string           `json:"jti"`
	ClientID  string           `json:"client_id"`
	Scope     string           `json:"scope,omitempty"`
	OrgID     string           `json:"org"`
	AuthTime  *jwt.NumericDate `json:"auth_time,omitempty"`
	SignIn
	Confirm *Confirmation `json:"cnf,omitempty"`

	Grant        string `json:"grant,omitempty"`
	ClientEpoch  int64  `json:"client_epoch"`
	ConsentEpoch int64  `json:"consent_epoch,omitempty"`

	// Act is the client that acts for the subject, if the token came from an exchange. GrantedTo is
	// then the client that got the first token in the chain, and ExchangedFor has the ids of all
	// earlier tokens, oldest first. GrantedTo is also set if ClientID is a document's URI, which stands
	// for a different client in each organization.
	Act          *Actor   `json:"act,omitempty"`
	GrantedTo    string   `json:"granted_to,omitempty"`
	ExchangedFor []string `json:"exchanged_for,omitempty"`
}

// SignIn says which methods the user signed in with, and the level they reach.
type SignIn struct {
	Level   string        `json:"acr,omitempty"`
	Methods oauth.Methods `json:"amr,omitempty"`
}

// NewSignIn returns the claims for a user who signed in with methods.
func NewSignIn(methods oauth.Methods) SignIn {
	return SignIn{Level: methods.Level(), Methods: methods}
}

// Confirmation names the key that a token is bound to (RFC 9449 section 6).
type Confirmation struct {
	JKT string `json:"jkt"`
}

// Scopes returns the token's scopes.
func (a *AccessClaims) Scopes() []string { return strings.Fields(a.Scope) }

// UserID returns the token's user. It is empty for client_credentials, whose tokens have no grant.
func (a *AccessClaims) UserID() string {
	if a.Grant == "" {
		return ""
	}
	return a.Subject
}

// IsFor reports whether the token was issued for the audience that a client has registered. No client
// has this server's audience, even if the base URL was changed to one that a client registered before.
func (a *AccessClaims) IsFor(c *oidc.Registered) bool {
	return c.Audience != nil && *c.Audience != a.Issuer && slices.Contains(a.Audience, *c.Audience)
}

// Lifetime returns the token's validity in seconds, counted from its issue.
func (a *AccessClaims) Lifetime() int64 { return int64(*a.ExpiresAt - *a.IssuedAt) }

// SetAudience sets the token's only audience.
func (a *AccessClaims) SetAudience(uri string) { a.Audience = jwt.Audience{uri} }

// TokenType returns the token's authentication scheme.
func (a *AccessClaims) TokenType() string {
	if a.Confirm != nil {
		return oauth.DPoP
	}
	return oauth.Bearer
}

// IDClaims are an ID token's claims.
type IDClaims struct {
	Issuer    string           `json:"iss"`
	Subject   string           `json:"sub"`
	Audience  jwt.Audience     `json:"aud"`
	ExpiresAt *jwt.NumericDate `json:"exp"`
	IssuedAt  *jwt.NumericDate `json:"iat"`
	AuthTime  *jwt.NumericDate `json:"auth_time,omitempty"`
	SignIn
	Nonce           string `json:"nonce,omitempty"`
	AccessTokenHash string `json:"at_hash,omitempty"`
	SessionID       string `json:"sid,omitempty"`
	ProfileClaims
	*OrganizationClaims
}

// ProfileClaims are the claims behind the scopes profile and email.
type ProfileClaims struct {
	Name       string `json:"name,omitempty"`
	GivenName  string `json:"given_name,omitempty"`
	FamilyName string `json:"family_name,omitempty"`
	Picture    string `json:"picture,omitempty"`
	UpdatedAt  int64  `json:"updated_at,omitempty"`
	Email      string `json:"email,omitempty"`
	// EmailVerified is nil without the email scope.
	EmailVerified *bool `json:"email_verified,omitempty"`
}

// OrganizationClaims are the claims behind the scope organization. They describe the user in the
// client's organization.
type OrganizationClaims struct {
	OrgID   string    `json:"org_id"`
	OrgName string    `json:"org_name"`
	Role    auth.Role `json:"role"`
	// Groups has the groups that the organization's providers named when the user last signed in with
	// them.
	Groups []string `json:"groups"`
}

// NewProfileClaims returns the claims about a user that the scopes allow.
func NewProfileClaims(u account.User, scopes []string) ProfileClaims {
	var c ProfileClaims
	if slices.Contains(scopes, oidc.ScopeProfile) {
		c.Name = strings.TrimSpace(u.FirstName + " " + u.LastName)
		c.GivenName = u.FirstName
		c.FamilyName = u.LastName
		c.Picture = u.PhotoURL
		c.UpdatedAt = u.UpdatedAt.Std().Unix()
	}
	if slices.Contains(scopes, oidc.ScopeEmail) {
		c.Email = u.Email
		c.EmailVerified = new(u.EmailVerified)
	}
	return c
}

// Actor is a client that acts for a token's subject, because it got the token in an exchange (RFC 8693
// section 4.1), and the actor before it.
type Actor struct {
	Subject string `json:"sub"`
	Actor   *Actor `json:"act,omitempty"`
}

// NewExchanged returns the claims for a new access token that client c gets in exchange for the
// subject's token. It expires no later than that one. If jkt is not empty, it is bound to the key with
// that thumbprint.
func (i *Issuer) NewExchanged(c *oidc.Registered, subject *AccessClaims, scopes []string, jkt string) *AccessClaims {
	a := i.NewAccess(c, subject.Subject, scopes, jkt)
	if subject.ExpiresAt.Time().Before(a.ExpiresAt.Time()) {
		a.ExpiresAt = subject.ExpiresAt
	}
	a.OrgID = subject.OrgID
	a.AuthTime = subject.AuthTime
	a.SignIn = subject.SignIn
	a.Grant = subject.Grant
	a.ClientEpoch = subject.ClientEpoch
	a.ConsentEpoch = subject.ConsentEpoch
	a.GrantedTo = subject.Holder()
	a.ExchangedFor = append(slices.Clone(subject.ExchangedFor), subject.ID)
	a.Act = &Actor{Subject: c.ID, Actor: subject.Act}
	return a
}

// Holder returns the client that the user gave this access to: the token's own client or, after
// exchanges, the first token's.
func (a *AccessClaims) Holder() string {
	if a.GrantedTo != "" {
		return a.GrantedTo
	}
	return a.ClientID
}

// Client returns the id of the client that the token was issued to. That differs from ClientID if a
// document describes the client.
func (a *AccessClaims) Client() string {
	if a.Act == nil {
		return a.Holder()
	}
	return a.ClientID
}

// IDs returns the ids of the token and all tokens it was exchanged for.
func (a *AccessClaims) IDs() []string { return append(slices.Clone(a.ExchangedFor), a.ID) }

const (
	// LogoutLifetime is a logout token's lifetime, as OpenID Connect Back-Channel Logout 1.0
	// recommends.
	LogoutLifetime = 2 * time.Minute

	logoutType  = "logout+jwt"
	logoutEvent = "http://schemas.openid.net/event/backchannel-logout"
)

// logoutClaims are a logout token's claims. They have no nonce, so that the token cannot pass as an ID
// token.
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
