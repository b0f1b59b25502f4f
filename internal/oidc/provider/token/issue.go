package token

import (
	"context"
	"slices"

	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/session"
	"steward/internal/stamp"
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
func (h *Handler) issueIfUsable(ctx context.Context, req *request, g *grant.Grant) (*response, error) {
	usable, err := h.Grants.Usable(ctx, req.client, g)
	if err != nil {
		return nil, err
	}
	if !usable {
		return nil, oauth.ErrGrant
	}
	audience, err := h.Audiences.Granted(ctx, g.Resource)
	if err != nil {
		return nil, err
	}
	return h.issue(ctx, req, g, audience, g.AllowedScopes(req.client))
}

// issue issues a grant's tokens: an access token for an audience and the scopes, an ID token if openid
// is among them, and the refresh token for the grant's generation.
func (h *Handler) issue(
	ctx context.Context, req *request, g *grant.Grant, audience string, scopes []string,
) (*response, error) {
	access := h.Tokens.NewAccess(req.client, g.UserID, scopes, req.jkt)
	access.SetAudience(audience)
	access.Grant = g.ID
	access.ClientEpoch = g.ClientEpoch
	access.ConsentEpoch = g.ConsentEpoch
	access.AuthTime = jwt.Date(g.AuthTime.Std())
	access.SignIn = jwt.NewSignIn(g.Methods)
	response, err := h.issueAccess(ctx, access)
	if err != nil {
		return nil, err
	}
	if g.Generation > 0 {
		response.RefreshToken = h.Grants.RefreshToken(g)
	}
	if slices.Contains(scopes, oidc.ScopeOpenID) {
		response.IDToken, err = h.issueID(ctx, req, g, scopes, response.AccessToken)
		if err != nil {
			return nil, err
		}
	}
	return response, nil
}

func (h *Handler) issueAccess(ctx context.Context, access *jwt.AccessClaims) (*response, error) {
	token, err := h.Tokens.SignAccess(ctx, access)
	if err != nil {
		return nil, err
	}
	return &response{
		AccessToken: token, TokenType: access.TokenType(), ExpiresIn: access.Lifetime(),
		Scope: access.Scope, userID: access.UserID(),
	}, nil
}

func (h *Handler) issueID(
	ctx context.Context, req *request, g *grant.Grant, scopes []string, accessToken string,
) (string, error) {
	user, err := h.Accounts.UserByID(ctx, g.UserID)
	if err != nil {
		return "", err
	}
	c := h.Tokens.NewID(req.client, g.UserID, g.AuthTime.Std(), accessToken)
	c.SignIn = jwt.NewSignIn(g.Methods)
	c.ProfileClaims = jwt.NewProfileClaims(user, scopes)
	if slices.Contains(scopes, oidc.ScopeOrganization) {
		c.OrganizationClaims, err = h.Organization(ctx, req.client.OrgID, g.UserID)
		if err != nil {
			return "", err
		}
	}
	if g.Nonce != nil {
		c.Nonce = *g.Nonce
	}
	c.SessionID = sessionOf(req.client, g)
	return h.Tokens.SignID(ctx, c)
}

// joinSession registers a client to be told when the session ends, if the client has a logout URI and
// gets an ID token. It returns false if the session has ended.
func joinSession(tx *db.Tx, c *oidc.Registered, g *grant.Grant, now stamp.Time) (joined bool, err error) {
	if g.SignInSessionID == nil || !c.HasLogoutURI() || !slices.Contains(g.AllowedScopes(c), oidc.ScopeOpenID) {
		return true, nil
	}
	return session.AddClient(tx, c, *g.SignInSessionID, now)
}

// sessionOf returns the session that an ID token names, or "". With offline access the tokens do not
// depend on a session, but a client that we tell about its end must know it.
func sessionOf(c *oidc.Registered, g *grant.Grant) string {
	switch {
	case g.SessionID != nil:
		return *g.SessionID
	case g.SignInSessionID != nil && c.HasLogoutURI():
		return *g.SignInSessionID
	}
	return ""
}
