package provider

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"steward/internal/errs"
)

type userinfoBody struct {
	Subject string `json:"sub"`
	profileClaims
}

// userinfo answers GET and POST /userinfo: what the token's scopes tell of its user.
func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) {
	scheme, body, err := p.userinfoOf(w, r)
	if err != nil {
		sendBearerFault(w, r, scheme, err)
		return
	}
	sendJSON(w, http.StatusOK, body)
}

func (p *Provider) userinfoOf(w http.ResponseWriter, r *http.Request) (scheme string, body *userinfoBody, err error) {
	scheme, token, err := presentedToken(w, r)
	if err != nil {
		return scheme, nil, err
	}
	a, err := p.liveAccess(r.Context(), token)
	if errors.Is(err, errToken) {
		return scheme, nil, refuse(invalidToken, "the access token is not valid, has expired or was revoked")
	}
	if err != nil {
		return scheme, nil, err
	}
	if a.Confirm != nil {
		scheme = schemeDPoP
	}
	if err := p.checkBinding(r, a, token); err != nil {
		return scheme, nil, err
	}
	if a.user() == "" || !slices.Contains(a.scopes(), scopeOpenID) {
		return scheme, nil, &fault{http.StatusForbidden, "insufficient_scope", "the access token does not have the scope openid"}
	}
	body, err = p.tell(r.Context(), a)
	return scheme, body, err
}

func (p *Provider) tell(ctx context.Context, a *accessClaims) (*userinfoBody, error) {
	user, err := p.profile(ctx, a.Subject)
	if errs.KindOf(err) == errs.NotFound {
		return nil, refuse(invalidToken, "the access token is not valid, has expired or was revoked")
	}
	if err != nil {
		return nil, err
	}
	p.Note(a.ClientID, user.ID)
	return &userinfoBody{Subject: user.ID, profileClaims: claimsOf(&user, a.scopes())}, nil
}

// presentedToken reads the token from the header, or from a POST's form (RFC 6750 section 2). Never from the address.
func presentedToken(w http.ResponseWriter, r *http.Request) (scheme, token string, err error) {
	if header := r.Header.Get("Authorization"); header != "" {
		given, value, _ := strings.Cut(header, " ")
		switch {
		case strings.EqualFold(given, schemeBearer):
			return schemeBearer, value, nil
		case strings.EqualFold(given, schemeDPoP):
			return schemeDPoP, value, nil
		}
		return schemeBearer, "", &fault{status: http.StatusUnauthorized}
	}
	if r.Method == http.MethodPost && readForm(w, r) == nil && r.PostForm.Get("access_token") != "" {
		return schemeBearer, r.PostForm.Get("access_token"), nil
	}
	return schemeBearer, "", &fault{status: http.StatusUnauthorized}
}

// checkBinding sees to it that a token that is bound to a key comes with a proof of that key, and as DPoP, not as Bearer.
func (p *Provider) checkBinding(r *http.Request, a *accessClaims, token string) error {
	given, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	dpop := strings.EqualFold(given, schemeDPoP)
	if a.Confirm == nil {
		if dpop {
			return refuse(invalidToken, "the access token is not bound to a key")
		}
		return nil
	}
	if !dpop {
		return refuse(invalidToken, "the access token is bound to a key: use DPoP")
	}
	sent, err := p.proofOf(r, token)
	if err == nil && sent.jkt != a.Confirm.JKT {
		err = badProof("the proof is not of the key that the token is bound to")
	}
	if err == nil {
		err = p.useProof(r, sent)
	}
	var f *fault
	if errors.As(err, &f) {
		f.status = http.StatusUnauthorized
	}
	return err
}

// introspection is what is told about a token (RFC 7662). Of one that is not good, nothing but that.
type introspection struct {
	Active    bool          `json:"active"`
	Scope     string        `json:"scope,omitempty"`
	ClientID  string        `json:"client_id,omitempty"`
	TokenType string        `json:"token_type,omitempty"`
	Expires   int64         `json:"exp,omitempty"`
	Issued    int64         `json:"iat,omitempty"`
	Subject   string        `json:"sub,omitempty"`
	Audience  []string      `json:"aud,omitempty"`
	Issuer    string        `json:"iss,omitempty"`
	ID        string        `json:"jti,omitempty"`
	Org       string        `json:"org,omitempty"`
	Confirm   *confirmation `json:"cnf,omitempty"`
}

// introspect answers POST /introspect. A token is told about to the client that it was made for, and to its audience.
func (p *Provider) introspect(r *http.Request, c *client) (body introspection, err error) {
	if isPublic(c) {
		return body, badClient() // anybody could name it
	}
	token, f := tokenOf(r)
	if f != nil {
		return body, f
	}
	if body, err = p.introspected(r.Context(), c, token); err == nil && body.Active {
		p.Note(body.ClientID, userOf(body))
	}
	return body, err
}

func userOf(i introspection) string {
	if i.Subject == i.ClientID {
		return ""
	}
	return i.Subject
}

// tokenOf reads which token introspection and revocation are about.
func tokenOf(r *http.Request) (string, *fault) {
	token, f := single(r.PostForm, "token")
	if f == nil && token == "" {
		f = refuse(invalidRequest, "token is missing")
	}
	return token, f
}

func (p *Provider) introspected(ctx context.Context, c *client, token string) (introspection, error) {
	if strings.HasPrefix(token, refreshPrefix) {
		return p.introspectRefresh(ctx, c, token)
	}
	a, err := p.liveAccess(ctx, token)
	if errors.Is(err, errToken) || err == nil && a.ClientID != c.ID && !slices.Contains(a.Audience, c.ID) {
		return introspection{}, nil
	}
	if err != nil {
		return introspection{}, err
	}
	kind := schemeBearer
	if a.Confirm != nil {
		kind = schemeDPoP
	}
	return introspection{
		Active: true, Scope: a.Scope, ClientID: a.ClientID, TokenType: kind, Expires: a.Expires.Time().Unix(), Issued: a.Issued.Time().Unix(),
		Subject: a.Subject, Audience: a.Audience, Issuer: a.Issuer, ID: a.ID, Org: a.Org, Confirm: a.Confirm,
	}, nil
}

// introspectRefresh tells about a refresh token while it is the current one of its family.
func (p *Provider) introspectRefresh(ctx context.Context, c *client, token string) (introspection, error) {
	named, ok := parseRefresh(token)
	if !ok {
		return introspection{}, nil
	}
	g, err := grantByID(p.DB.Read(ctx), named.grantID)
	if isNoRows(err) || err == nil && g.Generation != named.generation {
		return introspection{}, nil
	}
	if err != nil {
		return introspection{}, err
	}
	jkt := ""
	if g.JKT != nil {
		jkt = *g.JKT // whoever asks does not hold the key
	}
	err = p.mayRefresh(ctx, c, g, named.generation, token, jkt)
	var f *fault
	if errors.As(err, &f) {
		return introspection{}, nil
	}
	if err != nil {
		return introspection{}, err
	}
	return introspection{
		Active: true, Scope: strings.Join(g.Scopes, " "), ClientID: g.ClientID, Expires: g.RefreshExpiresAt.Std().Unix(),
		Issued: g.CreatedAt.Std().Unix(), Subject: g.UserID, Issuer: p.Issuer, Org: g.OrgID,
	}, nil
}
