package grant_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
	paging "steward/internal/page"
)

const api = "https://api.example.com/v1"

// resourceServer creates a client that serves an audience.
func resourceServer(f *providertest.Fixture, audience string) *providertest.App {
	f.T.Helper()
	return f.NewApp(`{"audience": "` + audience + `"}`)
}

// setAudience changes the audience of a client to a JSON value.
func setAudience(a *providertest.App, value string) {
	a.Fixture.T.Helper()
	var patch oidc.ClientPatch
	providertest.Must(a.Fixture.T, json.Unmarshal([]byte(`{"audience": `+value+`}`), &patch))
	_, err := a.Fixture.Clients.Store.Update(a.Fixture.Ctx, auth.From(a.Fixture.Ctx), a.ID,
		paging.IfMatch{}, patch)
	providertest.Must(a.Fixture.T, err)
}

// audienceOf returns the aud of a JWT.
func audienceOf(t *testing.T, token string) []string {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	providertest.Must(t, err)
	var claims struct {
		Audience any `json:"aud"`
	}
	providertest.Must(t, json.Unmarshal(payload, &claims))
	if one, ok := claims.Audience.(string); ok {
		return []string{one}
	}
	var all []string
	for _, a := range claims.Audience.([]any) {
		all = append(all, a.(string))
	}
	return all
}

// wantFor requires that an access token is for api: its server can introspect it, and this server
// refuses it.
func wantFor(a *providertest.App, server *providertest.App, token string) {
	t := a.Fixture.T
	t.Helper()
	if got := audienceOf(t, token); !slices.Equal(got, []string{api}) {
		t.Errorf("got aud %v", got)
	}
	answer := server.Post("/introspect", "token", token).Want(http.StatusOK).JSON()
	if answer["active"] != true || answer["client_id"] != a.ID ||
		!slices.Equal(answer["aud"].([]any), []any{api}) {
		t.Errorf("the resource server gets %v", answer)
	}
	if a.Secret != "" && !a.Active(token) {
		t.Error("the client cannot introspect its token")
	}
	a.Fixture.Userinfo(token).WantError(http.StatusUnauthorized, oauth.InvalidToken)
	if _, err := a.Fixture.Provider.Caller(t.Context(), token); err == nil {
		t.Error("the management API accepts a token for another audience")
	}
}

func TestResourceChoosesTheAudience(t *testing.T) {
	f := providertest.OnSQLite(t)
	server, other := resourceServer(f, api), resourceServer(f, "urn:example:other")
	for _, settings := range []string{providertest.Confidential, providertest.Public} {
		a := f.NewApp(settings)
		tokens := a.Redeem(a.Code("resource", api)).Want(http.StatusOK)
		wantFor(a, server, tokens.Text("access_token"))
		if other.Active(tokens.Text("access_token")) {
			t.Error("another resource server can introspect the token")
		}
		if got := audienceOf(t, tokens.Text("id_token")); !slices.Equal(got, []string{a.ID}) {
			t.Errorf("the aud of the ID token is %v", got)
		}
		// The grant remembers the resource.
		next := a.Refresh(tokens.Text("refresh_token")).Want(http.StatusOK)
		wantFor(a, server, next.Text("access_token"))
		again := a.Post("/oauth/token", "grant_type", "refresh_token", "refresh_token", next.Text("refresh_token"),
			"resource", api).Want(http.StatusOK)
		wantFor(a, server, again.Text("access_token"))
		a.Post("/revoke", "token", again.Text("access_token")).Want(http.StatusOK)
		if server.Active(again.Text("access_token")) {
			t.Error("a revoked token is active")
		}
	}
	a := f.NewApp(providertest.Confidential)
	machine := a.Post("/oauth/token", "grant_type", "client_credentials", "resource", api).Want(http.StatusOK)
	wantFor(a, server, machine.Text("access_token"))

	// Without resource, or with that of this server, everything is as it was.
	for _, resource := range []string{"", f.URL, f.URL + "/"} {
		token := a.Tokens("resource", resource)["access_token"].(string)
		f.Userinfo(token).Want(http.StatusOK)
		if server.Active(token) || !slices.Equal(audienceOf(t, token), []string{f.URL}) {
			t.Errorf("%q: aud %v", resource, audienceOf(t, token))
		}
	}
}

func TestResourceOfPushedRequestsAndDevices(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		server, a := resourceServer(f, api), f.NewApp(providertest.Public)
		form := a.Params()
		form["resource"] = []string{api, "", api}
		pushed := f.Browser().Do("POST", f.URL+"/par", form).Want(http.StatusCreated).Text("request_uri")
		b := f.Browser()
		at := url.Values{"client_id": {a.ID}, "request_uri": {pushed}, "resource": {"https://ignored.example.com"}}
		page := b.SignIn(b.Follow(b.Get(f.URL + "/authorize?" + at.Encode()))).Want(http.StatusOK)
		if !strings.Contains(page.Body, "<strong>"+api+"</strong>") {
			t.Errorf("the page does not name the API: %s", page.Body)
		}
		wantFor(a, server, a.Redeem(b.Complete(b.Submit(page)).Get("code")).Want(http.StatusOK).Text("access_token"))

		device := func(pairs ...string) func(more ...string) *providertest.Response {
			d := a.Post("/device_authorization", pairs...).Want(http.StatusOK)
			b.Submit(b.Get(d.Text("verification_uri_complete"))).Want(http.StatusOK)
			return func(more ...string) *providertest.Response {
				f.Clock.Add(10 * time.Second)
				poll := []string{"grant_type", oidc.DeviceCode, "device_code", d.Text("device_code")}
				return a.Post("/oauth/token", append(poll, more...)...)
			}
		}
		poll := device("scope", "openid", "resource", api)
		poll("resource", f.URL).WantRefused(oauth.InvalidTarget)
		tokens := poll("resource", api).Want(http.StatusOK)
		wantFor(a, server, tokens.Text("access_token"))
		wantFor(a, server, a.Refresh(tokens.Text("refresh_token")).Want(http.StatusOK).Text("access_token"))
		plain := device("scope", "openid")
		plain("resource", api).WantRefused(oauth.InvalidTarget)
		f.Userinfo(plain().Want(http.StatusOK).Text("access_token")).Want(http.StatusOK)
	})
}

// TestWrongResourcesAreRefused also checks that a wrong resource voids nothing.
func TestWrongResourcesAreRefused(t *testing.T) {
	f := providertest.OnSQLite(t)
	server, second := resourceServer(f, api), resourceServer(f, "urn:example:second")
	a := f.NewApp(providertest.Confidential)
	for _, resource := range []string{
		"https://unknown.example.com", api + "/", api + "#x", "api", "//api.example.com/v1", a.ID, "\x00", "\xff",
	} {
		got := f.Browser().Get(a.AuthorizeURL("resource", resource)).Location()
		if got.Get("error") != oauth.InvalidTarget || got.Get("state") != "xyz" {
			t.Errorf("%q at /authorize: %v", resource, got)
		}
		a.Post("/oauth/token", "grant_type", "client_credentials", "resource", resource).
			WantRefused(oauth.InvalidTarget)
		f.NewApp(providertest.Public).Post("/device_authorization", "resource", resource).
			WantRefused(oauth.InvalidTarget)
	}
	two := a.Params()
	two["resource"] = []string{api, "urn:example:second"}
	got := f.Browser().Get(f.URL + "/authorize?" + two.Encode()).Location()
	if got.Get("error") != oauth.InvalidTarget ||
		!strings.Contains(got.Get("error_description"), "only one resource") {
		t.Errorf("two resources: %v", got)
	}
	form := url.Values{"grant_type": {"client_credentials"}, "resource": two["resource"]}
	form.Set("client_id", a.ID)
	form.Set("client_secret", a.Secret)
	f.Browser().Do("POST", f.URL+"/oauth/token", form).WantRefused(oauth.InvalidTarget)

	redeem := func(code, resource string) *providertest.Response {
		return a.Post("/oauth/token", "grant_type", "authorization_code", "code", code,
			"redirect_uri", providertest.Callback, "code_verifier", providertest.Verifier, "resource", resource)
	}
	code := a.Code("resource", api)
	redeem(code, "urn:example:second").WantRefused(oauth.InvalidTarget)
	redeem(code, f.URL).WantRefused(oauth.InvalidTarget)
	tokens := redeem(code, api).Want(http.StatusOK)
	plain := a.Code()
	redeem(plain, api).WantRefused(oauth.InvalidTarget) // the user was asked for this server
	redeem(plain, f.URL).Want(http.StatusOK)
	refresh := []string{"grant_type", "refresh_token", "refresh_token", tokens.Text("refresh_token")}
	a.Post("/oauth/token", append(refresh, "resource", "urn:example:second")...).WantRefused(oauth.InvalidTarget)

	// Once the audience is gone, its server learns nothing and no tokens are issued for it.
	code = a.Code("resource", api)
	setAudience(server, "null")
	if server.Active(tokens.Text("access_token")) {
		t.Error("the client can introspect tokens for an audience that it has no more")
	}
	a.Post("/oauth/token", refresh...).WantRefused(oauth.InvalidTarget)
	a.Redeem(code).WantRefused(oauth.InvalidTarget)
	setAudience(server, `"`+api+`"`)
	wantFor(a, server, a.Post("/oauth/token", refresh...).Want(http.StatusOK).Text("access_token"))
	if second.Active(tokens.Text("access_token")) {
		t.Error("another resource server can introspect the token")
	}
}
