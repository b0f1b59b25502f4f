package authorize

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"steward/internal/oidc"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/oauth"
)

// maxParams limits the bytes that a flow carries from page to page.
const maxParams = 8 << 10

var errRedirectURI = oauth.NewError(oauth.InvalidRequest, "redirect_uri is not registered for this client")

// redirectURIOf returns a request's redirect URI. Show its errors on a page: until we know that the URI
// is registered, we must not redirect the browser.
func redirectURIOf(c *oidc.Registered, form url.Values) (string, error) {
	uri, err := oauth.Required(form, "redirect_uri")
	if err != nil {
		return "", err
	}
	if !c.MayRedirect(uri) {
		return "", errRedirectURI
	}
	return uri, nil
}

// parse validates a request. Its errors may be redirected to the client.
func (h *Handler) parse(
	ctx context.Context, c *oidc.Registered, redirectURI string, form url.Values,
) (*flow.Request, error) {
	params, err := singleParams(form)
	if err != nil {
		return nil, err
	}
	if err := checkSupported(params); err != nil {
		return nil, err
	}
	if err := checkResponseType(c, params); err != nil {
		return nil, err
	}
	req := &flow.Request{
		ClientID: c.ID, RedirectURI: redirectURI, State: params["state"], Nonce: params["nonce"],
		Level:     parseLevel(params["acr_values"]),
		LoginHint: params["login_hint"], JKT: params["dpop_jkt"], ResponseMode: params["response_mode"],
		// We leave out scopes that the client may not use. The token response lists the rest.
		Scopes: c.AllowedScopes(params["scope"]),
	}
	if len(req.Scopes) == 0 {
		return nil, oauth.NewError(oauth.InvalidScope, "none of the scopes is allowed for this client")
	}
	if req.Challenge, err = h.challenge(c, params); err != nil {
		return nil, err
	}
	if req.JKT != "" && !isDigest(req.JKT) {
		return nil, oauth.NewError(oauth.InvalidRequest, "dpop_jkt must be the SHA-256 thumbprint of a key")
	}
	if req.Resource, err = h.Audiences.Requested(ctx, form); err != nil {
		return nil, err
	}
	if req.Prompts, err = parsePrompt(params["prompt"]); err != nil {
		return nil, err
	}
	if req.MaxAge, err = parseMaxAge(params["max_age"]); err != nil {
		return nil, err
	}
	if req.Subject, err = h.hintSubject(ctx, c, params["id_token_hint"]); err != nil {
		return nil, err
	}
	return req, nil
}

// knownParams lists the parameters that change a request's meaning. Each may appear once. We ignore all
// others (RFC 6749 section 3.1), except resource.
var knownParams = []string{
	"client_id", "response_type", "redirect_uri", "scope", "state", "response_mode", "nonce", "prompt", "max_age",
	"id_token_hint", "login_hint", "code_challenge", "code_challenge_method", "dpop_jkt", "request", "request_uri",
	"registration", "acr_values",
}

// singleParams returns a request's known parameters. None may be repeated.
func singleParams(form url.Values) (map[string]string, error) {
	params := make(map[string]string, len(knownParams))
	size := 0
	for _, name := range knownParams {
		value, err := oauth.Param(form, name)
		if err != nil {
			return nil, err
		}
		params[name] = value
		size += len(value)
	}
	if size > maxParams {
		return nil, oauth.NewError(oauth.InvalidRequest, "the request is too large")
	}
	return params, nil
}

// checkSupported refuses parameters that we do not support, where ignoring them would change the
// request's meaning.
func checkSupported(params map[string]string) error {
	switch {
	case params["request"] != "":
		return oauth.NewError("request_not_supported", "request objects are not supported")
	case params["request_uri"] != "":
		return oauth.NewError("request_uri_not_supported",
			"request_uri must come from the pushed authorization request endpoint")
	case params["registration"] != "":
		return oauth.NewError("registration_not_supported", "registration is not supported")
	}
	return nil
}

func checkResponseType(c *oidc.Registered, params map[string]string) error {
	switch {
	case params["response_type"] == "":
		return oauth.Missing("response_type")
	case params["response_type"] != "code":
		return oauth.NewError("unsupported_response_type", "response_type must be code")
	case !slices.Contains([]string{"", flow.Query, flow.FormPost}, params["response_mode"]):
		return oauth.NewError(oauth.InvalidRequest, "response_mode must be query or form_post")
	case params["response_mode"] == flow.FormPost && !acceptsForms(params["redirect_uri"]):
		return oauth.NewError(oauth.InvalidRequest, "response_mode=form_post needs a redirect_uri with https or http")
	case !slices.Contains(c.GrantTypes, oidc.AuthorizationCode):
		return oauth.NewError(oauth.UnauthorizedClient, "this client may not use authorization codes")
	}
	return nil
}

// challenge returns the PKCE challenge. We support only S256, and require it from public clients, or
// from all clients with RequirePKCE.
func (h *Handler) challenge(c *oidc.Registered, params map[string]string) (string, error) {
	challenge := params["code_challenge"]
	method := params["code_challenge_method"]
	required := c.ClientType == oidc.Public || h.RequirePKCE
	switch {
	case challenge == "" && required:
		return "", oauth.NewError(oauth.InvalidRequest, "this client must use PKCE: code_challenge is missing")
	case challenge == "" && method != "":
		return "", oauth.Missing("code_challenge")
	case challenge != "" && method != "S256":
		return "", oauth.NewError(oauth.InvalidRequest, "code_challenge_method must be S256")
	case challenge != "" && !isDigest(challenge):
		return "", oauth.NewError(oauth.InvalidRequest, "code_challenge must be a SHA-256 in base64url without padding")
	}
	return challenge, nil
}

// isDigest reports whether s can be a SHA-256 hash in base64url.
func isDigest(s string) bool {
	return len(s) == 43 && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}

func parsePrompt(text string) ([]string, error) {
	prompts := strings.Fields(text)
	for _, p := range prompts {
		if !slices.Contains(flow.Prompts(), p) {
			return nil, oauth.NewError(oauth.InvalidRequest, "prompt must be none, login, consent or select_account")
		}
	}
	if slices.Contains(prompts, flow.PromptNone) && len(prompts) > 1 {
		return nil, oauth.NewError(oauth.InvalidRequest, "prompt=none cannot be combined with other values")
	}
	return prompts, nil
}

func parseMaxAge(text string) (*int64, error) {
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return nil, oauth.NewError(oauth.InvalidRequest, "max_age must be a number of seconds")
	}
	return &n, nil
}

// parseLevel returns the weakest acr among the requested ones, since it suffices, or "". It ignores
// unknown values.
func parseLevel(text string) string {
	requested := strings.Fields(text)
	for _, level := range oauth.Levels() {
		if slices.Contains(requested, level) {
			return level
		}
	}
	return ""
}

// hintSubject returns the user in an id_token_hint, which we must have issued to the client.
func (h *Handler) hintSubject(ctx context.Context, c *oidc.Registered, hint string) (string, error) {
	if hint == "" {
		return "", nil
	}
	claims, err := h.Tokens.VerifyIDHint(ctx, hint)
	if errors.Is(err, jwt.ErrInvalid) || err == nil && !slices.Contains(claims.Audience, c.ProtocolID()) {
		return "", oauth.NewError(oauth.InvalidRequest, "id_token_hint is not an ID token of this client")
	}
	if err != nil {
		return "", err
	}
	return claims.Subject, nil
}
