package jwt

import (
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
)

// AccessClaims are the claims of an access token (RFC 9068). Three of them name the grant, the epoch of
// the client and the epoch of the consent that the token is based on, so that revoking one of them needs
// no list of tokens.
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

	// Act is the client that acts for the subject, if the token was exchanged for another one. GrantedTo is the
	// client of the first of those then, and ExchangedFor has the ids of all, oldest first. GrantedTo is also set
	// if ClientID is the URI of a document, which stands for a client in each of several organizations.
	Act          *Actor   `json:"act,omitempty"`
	GrantedTo    string   `json:"granted_to,omitempty"`
	ExchangedFor []string `json:"exchanged_for,omitempty"`
}

// SignIn tells how the user signed in.
type SignIn struct {
	Level   string        `json:"acr,omitempty"`
	Methods oauth.Methods `json:"amr,omitempty"`
}

// NewSignIn returns the claims of a user who signed in with methods.
func NewSignIn(methods oauth.Methods) SignIn {
	return SignIn{Level: methods.Level(), Methods: methods}
}

// Confirmation names the key that a token is bound to (RFC 9449 section 6).
type Confirmation struct {
	JKT string `json:"jkt"`
}

// Scopes returns the scopes of the token.
func (a *AccessClaims) Scopes() []string { return strings.Fields(a.Scope) }

// UserID returns the user of the token. It is empty for client_credentials, whose tokens have no grant.
func (a *AccessClaims) UserID() string {
	if a.Grant == "" {
		return ""
	}
	return a.Subject
}

// IsFor reports whether the token was issued for the audience that a client has registered. No client has the
// audience of this server, even if the base URL was changed to one that was registered before.
func (a *AccessClaims) IsFor(c *oidc.Registered) bool {
	return c.Audience != nil && *c.Audience != a.Issuer && slices.Contains(a.Audience, *c.Audience)
}

// Lifetime returns for how many seconds the token is valid from its issue on.
func (a *AccessClaims) Lifetime() int64 { return int64(*a.ExpiresAt - *a.IssuedAt) }

// SetAudience sets the only audience of the token.
func (a *AccessClaims) SetAudience(uri string) { a.Audience = jwt.Audience{uri} }

// TokenType returns how the token must be presented.
func (a *AccessClaims) TokenType() string {
	if a.Confirm != nil {
		return oauth.DPoP
	}
	return oauth.Bearer
}

// IDClaims are the claims of an ID token.
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

// ProfileClaims are the claims that the scopes profile and email stand for.
type ProfileClaims struct {
	Name       string `json:"name,omitempty"`
	GivenName  string `json:"given_name,omitempty"`
	FamilyName string `json:"family_name,omitempty"`
	Picture    string `json:"picture,omitempty"`
	UpdatedAt  int64  `json:"updated_at,omitempty"`
	Email      string `json:"email,omitempty"`
	// EmailVerified is nil without the scope email.
	EmailVerified *bool `json:"email_verified,omitempty"`
}

// OrganizationClaims are the claims that the scope organization stands for: what the user is in the
// organization of the client.
type OrganizationClaims struct {
	OrgID   string    `json:"org_id"`
	OrgName string    `json:"org_name"`
	Role    auth.Role `json:"role"`
	// Groups are those that providers of the organization named when the user last signed in with them.
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
