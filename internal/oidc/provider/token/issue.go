package token

import (
	"context"
	"slices"

	"steward/internal/oidc"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/oauth"
)

// response is the token endpoint's response (RFC 6749 section 5.1).
type response struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"`
	RefreshToken string `json:"refresh_token,omitempty"`
	IDToken      string `json:"id_token,omitempty"`
	Scope        string `json:"scope,omitempty"`
	// IssuedTokenType is only set for a token exchange.
	IssuedTokenType string `json:"issued_token_type,omitempty"`

	// userID is empty for client_credentials.
	userID string
}

// issueIfUsable issues tokens for a grant just redeemed, unless it is no longer usable.
func (e *Endpoint) issueIfUsable(ctx context.Context, req *request, g *grant.Grant) (*response, error) {
	usable, err := e.Grants.Usable(ctx, req.client, g)
	if err != nil {
		return nil, err
	}
	if !usable {
		return nil, oauth.ErrGrant
	}
	audience, err := e.Audiences.Granted(ctx, g.Resource)
	if err != nil {
		return nil, err
	}
	return e.issue(ctx, req, g, audience, g.AllowedScopes(req.client))
}

// issue issues a grant's tokens: an access token for an audience and the scopes, an ID token if openid
// is among them, and the refresh token for the grant's generation.
func (e *Endpoint) issue(
	ctx context.Context, req *request, g *grant.Grant, audience string, scopes []string,
) (*response, error) {
	access := e.Tokens.NewAccess(req.client, g.UserID, scopes, req.jkt)
	access.SetAudience(audience)
	access.Grant = g.ID
	access.ClientEpoch = g.ClientEpoch
	access.ConsentEpoch = g.ConsentEpoch
	access.AuthTime = jwt.Date(g.AuthTime.Std())
	access.SignIn = jwt.NewSignIn(g.Methods)
	response, err := e.issueAccess(ctx, access)
	if err != nil {
		return nil, err
	}
	if g.Generation > 0 {
		response.RefreshToken = e.Grants.RefreshToken(g)
	}
	if slices.Contains(scopes, oidc.ScopeOpenID) {
		response.IDToken, err = e.issueID(ctx, req, g, scopes, response.AccessToken)
		if err != nil {
			return nil, err
		}
	}
	return response, nil
}

func (e *Endpoint) issueAccess(ctx context.Context, access *jwt.AccessClaims) (*response, error) {
	token, err := e.Tokens.SignAccess(ctx, access)
	if err != nil {
		return nil, err
	}
	return &response{
		AccessToken: token, TokenType: access.TokenType(), ExpiresIn: access.Lifetime(),
		Scope: access.Scope, userID: access.UserID(),
	}, nil
}

func (e *Endpoint) issueID(
	ctx context.Context, req *request, g *grant.Grant, scopes []string, accessToken string,
) (string, error) {
	user, err := e.Accounts.UserByID(ctx, g.UserID)
	if err != nil {
		return "", err
	}
	c := e.Tokens.NewID(req.client, g.UserID, g.AuthTime.Std(), accessToken)
	c.SignIn = jwt.NewSignIn(g.Methods)
	c.ProfileClaims = jwt.NewProfileClaims(user, scopes)
	if slices.Contains(scopes, oidc.ScopeOrganization) {
		c.OrganizationClaims, err = e.Introspect.Organization(ctx, req.client.OrgID, g.UserID)
		if err != nil {
			return "", err
		}
	}
	if g.Nonce != nil {
		c.Nonce = *g.Nonce
	}
	c.SessionID = sessionOf(req.client, g)
	return e.Tokens.SignID(ctx, c)
}
