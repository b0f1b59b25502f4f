package provider

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc"
)

// Scopes with a meaning to this package.
const (
	scopeOpenID  = "openid"
	scopeProfile = "profile"
	scopeEmail   = "email"
	scopeOffline = "offline_access"
)

// tokenAnswer is what the token endpoint tells (RFC 6749 section 5.1).
type tokenAnswer struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"`
	RefreshToken string `json:"refresh_token,omitempty"`
	IDToken      string `json:"id_token,omitempty"`
	Scope        string `json:"scope,omitempty"`

	userID string // empty when no user stands behind it
}

// tokens answers POST /oauth/token.
func (p *Provider) tokens(r *http.Request, c *client) (*tokenAnswer, error) {
	kind, f := single(r.PostForm, "grant_type")
	if f != nil {
		return nil, f
	}
	redeem := map[string]func(*http.Request, *client, string) (*tokenAnswer, error){
		oidc.AuthorizationCode: p.redeemCode,
		oidc.RefreshToken:      p.refresh,
		oidc.ClientCredentials: p.clientCredentials,
		oidc.DeviceCode:        p.redeemDevice,
	}[kind]
	switch {
	case kind == "":
		return nil, refuse(invalidRequest, "grant_type is missing")
	case redeem == nil:
		return nil, refuse("unsupported_grant_type", "grant_type is not supported")
	case !slices.Contains(c.GrantTypes, kind):
		return nil, refuse("unauthorized_client", "this client may not use this grant_type")
	}
	sent, err := p.proofOf(r, "")
	if err != nil {
		return nil, err
	}
	answer, err := redeem(r, c, sent.jkt)
	if err == nil {
		err = p.useProof(r, sent)
	}
	if err != nil {
		return nil, err
	}
	p.Note(c.ID, answer.userID)
	return answer, nil
}

// clientCredentials gives a token that rests on the client alone. Nothing is written: the token names the client's epoch.
func (p *Provider) clientCredentials(r *http.Request, c *client, jkt string) (*tokenAnswer, error) {
	asked, f := single(r.PostForm, "scope")
	if f != nil {
		return nil, f
	}
	scopes := slices.DeleteFunc(allowedScopes(c, asked), ofUser)
	if strings.TrimSpace(asked) != "" && len(scopes) < len(strings.Fields(asked)) {
		return nil, refuse(invalidScope, "a scope is not allowed for this client, or needs a user")
	}
	return p.answer(r.Context(), c, p.newAccess(c, c.ID, scopes, jkt))
}

// ofUser tells whether a scope makes no sense without a user.
func ofUser(scope string) bool {
	return slices.Contains([]string{scopeOpenID, scopeProfile, scopeEmail, scopeOffline}, scope)
}

func (p *Provider) answer(ctx context.Context, c *client, a *accessClaims) (*tokenAnswer, error) {
	token, err := p.sign(ctx, accessAlg, accessType, a)
	if err != nil {
		return nil, err
	}
	kind := schemeBearer
	if a.Confirm != nil {
		kind = schemeDPoP
	}
	return &tokenAnswer{
		AccessToken: token, TokenType: kind, ExpiresIn: int64(c.AccessLifetime().Seconds()), Scope: a.Scope, userID: a.user(),
	}, nil
}

// answerUser gives the tokens that a grant carries: an access token for the scopes, an ID token when one of them is openid, and the refresh
// token of the grant's generation.
func (p *Provider) answerUser(ctx context.Context, c *client, g *grant, scopes []string, jkt string) (*tokenAnswer, error) {
	a := p.newAccess(c, g.UserID, scopes, jkt)
	a.Grant, a.ClientEpoch, a.ConsentEpoch, a.AuthTime = g.ID, g.ClientEpoch, g.ConsentEpoch, date(g.AuthTime.Std())
	answer, err := p.answer(ctx, c, a)
	if err != nil {
		return nil, err
	}
	if g.Generation > 0 {
		answer.RefreshToken = p.refreshToken(g, g.Generation)
	}
	if slices.Contains(scopes, scopeOpenID) {
		if answer.IDToken, err = p.idToken(ctx, c, g, scopes, answer.AccessToken); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func (p *Provider) idToken(ctx context.Context, c *client, g *grant, scopes []string, accessToken string) (string, error) {
	now := p.Now()
	claims := idClaims{
		Issuer: p.Issuer, Subject: g.UserID, Audience: []string{c.ID}, Issued: date(now), Expires: date(now.Add(c.IDLifetime())),
		AuthTime: date(g.AuthTime.Std()), ATHash: halfHash(accessToken),
	}
	if g.Nonce != nil {
		claims.Nonce = *g.Nonce
	}
	if g.SessionID != nil {
		claims.Session = *g.SessionID
	}
	user, err := p.Users.ByID(ctx, g.UserID)
	if err != nil {
		return "", err
	}
	claims.profileClaims = claimsOf(&user, scopes)
	return p.sign(ctx, idAlg, "JWT", claims)
}

// profileClaims are what the scopes profile and email tell of a user.
type profileClaims struct {
	Name       string `json:"name,omitempty"`
	GivenName  string `json:"given_name,omitempty"`
	FamilyName string `json:"family_name,omitempty"`
	Picture    string `json:"picture,omitempty"`
	UpdatedAt  int64  `json:"updated_at,omitempty"`
	Email      string `json:"email,omitempty"`
}

func claimsOf(u *User, scopes []string) (c profileClaims) {
	if slices.Contains(scopes, scopeProfile) {
		c.GivenName, c.FamilyName, c.Picture = u.FirstName, u.LastName, u.PhotoURL
		c.Name = strings.TrimSpace(u.FirstName + " " + u.LastName)
		c.UpdatedAt = u.UpdatedAt.Std().Unix()
	}
	if slices.Contains(scopes, scopeEmail) {
		c.Email = u.Email
	}
	return c
}

// usable tells whether what a grant rests on is still there: the client's epoch, the consent, the user, and that the client admits them.
func (p *Provider) usable(ctx context.Context, c *client, g *grant) (bool, error) {
	ok, err := p.Clients.Live(ctx, c.ID, g.UserID, g.ClientEpoch, g.ConsentEpoch)
	if err != nil || !ok {
		return false, err
	}
	if ok, err = p.Clients.Admits(ctx, c, g.UserID); err != nil || !ok {
		return false, err
	}
	_, err = p.Users.ByID(ctx, g.UserID)
	if errs.KindOf(err) == errs.NotFound {
		return false, nil
	}
	return err == nil, err
}

func isNoRows(err error) bool { return errors.Is(err, db.ErrNoRows) }
