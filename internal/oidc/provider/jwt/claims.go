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

// AccessClaims are an access token's claims (RFC 9068). Three of them name the grant, the client's epoch
// and the consent's epoch, so that we can revoke any of these without a list of tokens.
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

	// Act is the client that acts for the subject, if the client exchanged another token for this one.
	// GrantedTo is then the client that got the first token, and ExchangedFor lists the ids of all the
	// tokens before, oldest first. GrantedTo is also set if ClientID is a document's URI, since the same
	// URI stands for a client in each of several organizations.
	Act          *Actor   `json:"act,omitempty"`
	GrantedTo    string   `json:"granted_to,omitempty"`
	ExchangedFor []string `json:"exchanged_for,omitempty"`
}

// SignIn tells how the user signed in.
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

// IsFor reports whether the token's audience is the one that a client has registered. This server's own
// audience never counts, even if a client registered it before the base URL changed to it.
func (a *AccessClaims) IsFor(c *oidc.Registered) bool {
	return c.Audience != nil && *c.Audience != a.Issuer && slices.Contains(a.Audience, *c.Audience)
}

// Lifetime returns for how many seconds after its issue the token is valid.
func (a *AccessClaims) Lifetime() int64 { return int64(*a.ExpiresAt - *a.IssuedAt) }

// SetAudience makes uri the token's only audience.
func (a *AccessClaims) SetAudience(uri string) { a.Audience = jwt.Audience{uri} }

// TokenType returns the scheme for presenting the token.
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
	// EmailVerified is nil without the scope email.
	EmailVerified *bool `json:"email_verified,omitempty"`
}

// OrganizationClaims are the claims behind the scope organization: the user's place in the client's
// organization.
type OrganizationClaims struct {
	OrgID   string    `json:"org_id"`
	OrgName string    `json:"org_name"`
	Role    auth.Role `json:"role"`
	// Groups are the ones that the organization's providers named at the user's last sign-in with them.
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
