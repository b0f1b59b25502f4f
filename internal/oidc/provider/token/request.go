package token

import (
	"net/http"
	"slices"

	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
)

// request is a token request.
type request struct {
	client    *oidc.Registered
	grantType string
	// scope holds the requested scopes; empty for all that can be granted.
	scope string
	// audience is the requested audience; empty for that of the grant.
	audience string
	// jkt is the key of the DPoP proof; empty if there was none.
	jkt string

	code         string
	redirectURI  string
	codeVerifier string
	refreshToken string
	deviceCode   string
}

// parse parses the form of a request. The parameters that the grant type requires must be present.
func parse(r *http.Request, c *oidc.Registered) (*request, error) {
	req := &request{client: c}
	for name, field := range map[string]*string{
		"grant_type": &req.grantType, "scope": &req.scope, "code": &req.code, "redirect_uri": &req.redirectURI,
		"code_verifier": &req.codeVerifier, "refresh_token": &req.refreshToken, "device_code": &req.deviceCode,
	} {
		value, err := oauth.Param(r.PostForm, name)
		if err != nil {
			return nil, err
		}
		*field = value
	}
	var required string
	switch req.grantType {
	case oidc.AuthorizationCode:
		required = "code"
	case oidc.RefreshToken:
		required = "refresh_token"
	case oidc.DeviceCode:
		required = "device_code"
	case oidc.ClientCredentials:
	case "":
		return nil, oauth.Missing("grant_type")
	default:
		return nil, oauth.NewError(oauth.UnsupportedGrantType, "grant_type is not supported")
	}
	if !slices.Contains(c.GrantTypes, req.grantType) {
		return nil, oauth.NewError(oauth.UnauthorizedClient, "this client may not use this grant_type")
	}
	if required != "" && r.PostForm.Get(required) == "" {
		return nil, oauth.Missing(required)
	}
	return req, nil
}
