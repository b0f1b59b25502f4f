package providertest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"steward/internal/auth"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/page"
)

// App is an application that uses a client.
type App struct {
	Fixture *Fixture
	ID      string
	Secret  string
}

// NewApp creates a client with the given management API settings.
func (f *Fixture) NewApp(settings string) *App {
	f.T.Helper()
	return f.NewAppOf(f.Ctx, settings)
}

// NewAppOf is NewApp for the context's caller, whose organization owns the client.
func (f *Fixture) NewAppOf(ctx context.Context, settings string) *App {
	f.T.Helper()
	var in oidc.NewClient
	Must(f.T, json.Unmarshal([]byte(settings), &in))
	in.Name, in.Description, in.HomepageURL = "Test app", "For tests", "https://rp.example.com"
	made, err := f.Clients.Create(ctx, &oidc.CreateRequest{Body: in})
	Must(f.T, err)
	return &App{Fixture: f, ID: made.Client.ID, Secret: made.ClientSecret}
}

// Settings for a confidential and a public client.
const (
	Confidential = `{"redirect_uris": ["https://rp.example.com/callback"],
		"post_logout_redirect_uris": ["https://rp.example.com/bye"],
		"grant_types": ["authorization_code", "refresh_token", "client_credentials"],
		"scopes": ["openid", "profile", "email", "offline_access", "webhook:read", "webhook:write"]}`
	Public = `{"client_type": "public", "redirect_uris": ["https://rp.example.com/callback"],
		"grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"]}`
)

// Verifier is the PKCE verifier in all requests.
const Verifier = "a-verifier-of-at-least-43-characters-0123456789"

// challenge returns Verifier's PKCE challenge.
func challenge() string {
	sum := sha256.Sum256([]byte(Verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Params returns the parameters for an ordinary authorization request. Pairs replace some of them, or
// remove them if the value is empty.
func (a *App) Params(pairs ...string) url.Values {
	v := url.Values{
		"client_id": {a.ID}, "redirect_uri": {Callback}, "response_type": {"code"},
		"scope": {"openid profile email offline_access"}, "state": {"xyz"},
		"nonce": {"n-0S6"}, "code_challenge": {challenge()}, "code_challenge_method": {"S256"},
	}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
		if pairs[i+1] == "" {
			v.Del(pairs[i])
		}
	}
	return v
}

// AuthorizeURL returns an authorization request's URL with the parameters from Params.
func (a *App) AuthorizeURL(pairs ...string) string {
	return a.Fixture.URL + "/authorize?" + a.Params(pairs...).Encode()
}

// Code gets an authorization code in a new browser.
func (a *App) Code(pairs ...string) string {
	a.Fixture.T.Helper()
	b := a.Fixture.Browser()
	result := b.Complete(b.Get(a.AuthorizeURL(pairs...)))
	if result.Get("code") == "" {
		a.Fixture.T.Fatalf("no code: %v", result)
	}
	return result.Get("code")
}

// Post sends a form to an endpoint, with client_secret_basic if the client has a secret.
func (a *App) Post(path string, pairs ...string) *Response {
	a.Fixture.T.Helper()
	return a.PostAs(a.Fixture.Browser(), path, pairs)
}

// PostAs is Post with headers, in a browser.
func (a *App) PostAs(b *Browser, path string, pairs []string, headers ...string) *Response {
	a.Fixture.T.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	if a.Secret == "" {
		form.Set("client_id", a.ID)
	} else {
		basic := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(a.ID) + ":" + url.QueryEscape(a.Secret)))
		headers = append(headers, "Authorization", "Basic "+basic)
	}
	return b.Do("POST", a.Fixture.URL+path, form, headers...)
}

// Redeem sends an authorization code to the token endpoint.
func (a *App) Redeem(code string) *Response {
	a.Fixture.T.Helper()
	return a.Post("/oauth/token", "grant_type", "authorization_code", "code", code, "redirect_uri", Callback,
		"code_verifier", Verifier)
}

// Refresh sends a refresh token to the token endpoint.
func (a *App) Refresh(token string) *Response {
	a.Fixture.T.Helper()
	return a.Post("/oauth/token", "grant_type", "refresh_token", "refresh_token", token)
}

// Tokens gets tokens with an authorization code.
func (a *App) Tokens(pairs ...string) map[string]any {
	a.Fixture.T.Helper()
	return a.Redeem(a.Code(pairs...)).Want(http.StatusOK).JSON()
}

// Active reports whether introspection says that a token is active.
func (a *App) Active(token string) bool {
	a.Fixture.T.Helper()
	return a.Post("/introspect", "token", token).Want(http.StatusOK).JSON()["active"] == true
}

// WantInvalid requires that everybody refuses an access token.
func (a *App) WantInvalid(token any, why string) {
	a.Fixture.T.Helper()
	text := fmt.Sprint(token)
	a.Fixture.Userinfo(text).WantError(http.StatusUnauthorized, oauth.InvalidToken)
	if _, err := a.Fixture.Provider.Caller(a.Fixture.T.Context(), text); err == nil {
		a.Fixture.T.Errorf("%s: the management API accepts the token", why)
	}
	// A deleted client cannot authenticate.
	r := a.Post("/introspect", "token", text)
	if r.Status != http.StatusUnauthorized && r.Want(http.StatusOK).Body != `{"active":false}` {
		a.Fixture.T.Errorf("%s: introspection returns %s", why, r.Body)
	}
}

// WithSecret returns an application that uses the same client with another secret.
func (a *App) WithSecret(secret string) *App {
	return &App{Fixture: a.Fixture, ID: a.ID, Secret: secret}
}

// RotateSecret replaces the client's secret.
func (a *App) RotateSecret() {
	a.Fixture.T.Helper()
	rotated, err := a.Fixture.Clients.RotateSecret(a.Fixture.Ctx, &oidc.ClientPath{ID: a.ID})
	Must(a.Fixture.T, err)
	a.Secret = rotated.ClientSecret
}

// MachineToken gets a token for the client itself.
func (a *App) MachineToken() string {
	a.Fixture.T.Helper()
	return a.Post("/oauth/token", "grant_type", "client_credentials").Want(http.StatusOK).Text("access_token")
}

// Update changes a client.
func (a *App) Update(p oidc.ClientPatch) {
	a.Fixture.T.Helper()
	_, err := a.Fixture.Clients.Store.Update(a.Fixture.Ctx, auth.From(a.Fixture.Ctx), a.ID, page.IfMatch{}, p)
	Must(a.Fixture.T, err)
}

// Header returns a token's header.
func Header(t *testing.T, token string) (out map[string]any) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
	Must(t, err)
	Must(t, json.Unmarshal(raw, &out))
	return out
}

// Claims returns a token's claims.
func Claims(t *testing.T, token any) (out map[string]any) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token.(string), ".")[1])
	Must(t, err)
	Must(t, json.Unmarshal(raw, &out))
	return out
}
