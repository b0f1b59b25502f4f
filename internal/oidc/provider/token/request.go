package token

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
)

type grantType struct {
	// required names the parameter that must be present; empty if there is none.
	required string
	// exchange returns the tokens for a request.
	exchange func(h *Handler, ctx context.Context, req *request) (*response, error)
}

// grantTypes has an entry for each grant type in package oidc.
var grantTypes = map[string]grantType{
	oidc.AuthorizationCode: {"code", (*Handler).authorizationCode},
	oidc.RefreshToken:      {"refresh_token", (*Handler).refreshToken},
	oidc.ClientCredentials: {"", (*Handler).clientCredentials},
	oidc.DeviceCode:        {"device_code", (*Handler).deviceCode},
	oidc.TokenExchange:     {"subject_token", (*Handler).tokenExchange},
}

type request struct {
	client    *oidc.Registered
	grantType grantType
	// scope has the requested scopes; empty for all that can be granted.
	scope string
	// audience is the requested audience; empty for the grant's.
	audience string
	// jkt is the DPoP proof's key; empty if there was no proof.
	jkt string

	code         string
	redirectURI  string
	codeVerifier string
	refreshToken string
	deviceCode   string

	// Only for a token exchange.
	subjectToken, subjectTokenType string
	actorToken, actorTokenType     string
	requestedTokenType             string
}

// targets returns the form with a token exchange's audience (RFC 8693 section 2.1) as a resource.
func targets(form url.Values) url.Values {
	if form.Get("grant_type") != oidc.TokenExchange {
		return form
	}
	return url.Values{"resource": slices.Concat(form["resource"], form["audience"])}
}

// parse parses a request's form. It requires the parameter that the grant type needs.
func parse(r *http.Request, c *oidc.Registered) (*request, error) {
	req := &request{client: c}
	var name string
	for param, field := range map[string]*string{
		"grant_type": &name, "scope": &req.scope, "code": &req.code, "redirect_uri": &req.redirectURI,
		"code_verifier": &req.codeVerifier, "refresh_token": &req.refreshToken, "device_code": &req.deviceCode,
		"subject_token": &req.subjectToken, "subject_token_type": &req.subjectTokenType, "actor_token": &req.actorToken,
		"actor_token_type": &req.actorTokenType, "requested_token_type": &req.requestedTokenType,
	} {
		value, err := oauth.Param(r.PostForm, param)
		if err != nil {
			return nil, err
		}
		*field = value
	}
	if name == "" {
		return nil, oauth.Missing("grant_type")
	}
	g, ok := grantTypes[name]
	if !ok {
		return nil, oauth.NewError(oauth.UnsupportedGrantType, "grant_type is not supported")
	}
	if !slices.Contains(c.GrantTypes, name) {
		return nil, oauth.NewError(oauth.UnauthorizedClient, "this client may not use this grant_type")
	}
	if g.required != "" && r.PostForm.Get(g.required) == "" {
		return nil, oauth.Missing(g.required)
	}
	req.grantType = g
	return req, nil
}
