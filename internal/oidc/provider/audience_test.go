package provider

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
	paging "steward/internal/page"
)

const api = "https://api.example.com/v1"

// resourceServer creates a client that serves an audience.
func (f *fixture) resourceServer(audience string) *app {
	f.t.Helper()
	return f.newApp(`{"audience": "` + audience + `"}`)
}

// setAudience changes the audience of a client to a JSON value.
func (a *app) setAudience(value string) {
	a.f.t.Helper()
	var patch oidc.ClientPatch
	must(a.f.t, json.Unmarshal([]byte(`{"audience": `+value+`}`), &patch))
	_, err := a.f.clients.Store.Update(a.f.ctx, auth.From(a.f.ctx), a.id, paging.IfMatch{}, patch)
	must(a.f.t, err)
}

// audienceOf returns the aud of a JWT.
func audienceOf(t *testing.T, token string) []string {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	must(t, err)
	var claims struct {
		Audience any `json:"aud"`
	}
	must(t, json.Unmarshal(payload, &claims))
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
func (a *app) wantFor(server *app, token string) {
	t := a.f.t
	t.Helper()
	if got := audienceOf(t, token); !slices.Equal(got, []string{api}) {
		t.Errorf("got aud %v", got)
	}
	answer := server.post("/introspect", "token", token).want(http.StatusOK).json()
	if answer["active"] != true || answer["client_id"] != a.id || !slices.Equal(answer["aud"].([]any), []any{api}) {
		t.Errorf("the resource server gets %v", answer)
	}
	if a.secret != "" && !a.active(token) {
		t.Error("the client cannot introspect its token")
	}
	a.f.userinfo(token).wantError(http.StatusUnauthorized, oauth.InvalidToken)
	if _, err := a.f.provider.Caller(t.Context(), token); err == nil {
		t.Error("the management API accepts a token for another audience")
	}
}

func TestResourceChoosesTheAudience(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		server, other := f.resourceServer(api), f.resourceServer("urn:example:other")
		for _, settings := range []string{confidential, public} {
			a := f.newApp(settings)
			tokens := a.redeem(a.code("resource", api)).want(http.StatusOK)
			a.wantFor(server, tokens.text("access_token"))
			if other.active(tokens.text("access_token")) {
				t.Error("another resource server can introspect the token")
			}
			if got := audienceOf(t, tokens.text("id_token")); !slices.Equal(got, []string{a.id}) {
				t.Errorf("the aud of the ID token is %v", got)
			}
			// The grant remembers the resource.
			next := a.refresh(tokens.text("refresh_token")).want(http.StatusOK)
			a.wantFor(server, next.text("access_token"))
			again := a.post("/oauth/token", "grant_type", "refresh_token", "refresh_token", next.text("refresh_token"),
				"resource", api).want(http.StatusOK)
			a.wantFor(server, again.text("access_token"))
			a.post("/revoke", "token", again.text("access_token")).want(http.StatusOK)
			if server.active(again.text("access_token")) {
				t.Error("a revoked token is active")
			}
		}
		a := f.newApp(confidential)
		machine := a.post("/oauth/token", "grant_type", "client_credentials", "resource", api).want(http.StatusOK)
		a.wantFor(server, machine.text("access_token"))

		// Without resource, or with that of this server, everything is as it was.
		for _, resource := range []string{"", f.url, f.url + "/"} {
			token := a.tokens("resource", resource)["access_token"].(string)
			f.userinfo(token).want(http.StatusOK)
			if server.active(token) || !slices.Equal(audienceOf(t, token), []string{f.url}) {
				t.Errorf("%q: aud %v", resource, audienceOf(t, token))
			}
		}
	})
}

func TestResourceOfPushedRequestsAndDevices(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		server, a := f.resourceServer(api), f.newApp(public)
		form := a.params()
		form["resource"] = []string{api, "", api}
		pushed := f.browser().do("POST", f.url+"/par", form).want(http.StatusCreated).text("request_uri")
		b := f.browser()
		at := url.Values{"client_id": {a.id}, "request_uri": {pushed}, "resource": {"https://ignored.example.com"}}
		page := b.signIn(b.follow(b.get(f.url + "/authorize?" + at.Encode()))).want(http.StatusOK)
		if !strings.Contains(page.body, "<strong>"+api+"</strong>") {
			t.Errorf("the page does not name the API: %s", page.body)
		}
		a.wantFor(server, a.redeem(b.complete(b.submit(page)).Get("code")).want(http.StatusOK).text("access_token"))

		device := func(pairs ...string) func(more ...string) *response {
			d := a.post("/device_authorization", pairs...).want(http.StatusOK)
			b.submit(b.get(d.text("verification_uri_complete"))).want(http.StatusOK)
			return func(more ...string) *response {
				f.clock.add(10 * time.Second)
				poll := []string{"grant_type", oidc.DeviceCode, "device_code", d.text("device_code")}
				return a.post("/oauth/token", append(poll, more...)...)
			}
		}
		poll := device("scope", "openid", "resource", api)
		poll("resource", f.url).wantRefused(oauth.InvalidTarget)
		tokens := poll("resource", api).want(http.StatusOK)
		a.wantFor(server, tokens.text("access_token"))
		a.wantFor(server, a.refresh(tokens.text("refresh_token")).want(http.StatusOK).text("access_token"))
		plain := device("scope", "openid")
		plain("resource", api).wantRefused(oauth.InvalidTarget)
		f.userinfo(plain().want(http.StatusOK).text("access_token")).want(http.StatusOK)
	})
}

// TestWrongResourcesAreRefused also checks that a wrong resource voids nothing.
func TestWrongResourcesAreRefused(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		server, second, a := f.resourceServer(api), f.resourceServer("urn:example:second"), f.newApp(confidential)
		for _, resource := range []string{
			"https://unknown.example.com", api + "/", api + "#x", "api", "//api.example.com/v1", a.id, "\x00", "\xff",
		} {
			got := f.browser().get(a.authorizeURL("resource", resource)).location()
			if got.Get("error") != oauth.InvalidTarget || got.Get("state") != "xyz" {
				t.Errorf("%q at /authorize: %v", resource, got)
			}
			a.post("/oauth/token", "grant_type", "client_credentials", "resource", resource).wantRefused(oauth.InvalidTarget)
			f.newApp(public).post("/device_authorization", "resource", resource).wantRefused(oauth.InvalidTarget)
		}
		two := a.params()
		two["resource"] = []string{api, "urn:example:second"}
		got := f.browser().get(f.url + "/authorize?" + two.Encode()).location()
		if got.Get("error") != oauth.InvalidTarget || !strings.Contains(got.Get("error_description"), "only one resource") {
			t.Errorf("two resources: %v", got)
		}
		form := url.Values{"grant_type": {"client_credentials"}, "resource": two["resource"]}
		form.Set("client_id", a.id)
		form.Set("client_secret", a.secret)
		f.browser().do("POST", f.url+"/oauth/token", form).wantRefused(oauth.InvalidTarget)

		redeem := func(code, resource string) *response {
			return a.post("/oauth/token", "grant_type", "authorization_code", "code", code, "redirect_uri", callback,
				"code_verifier", verifier, "resource", resource)
		}
		code := a.code("resource", api)
		redeem(code, "urn:example:second").wantRefused(oauth.InvalidTarget)
		redeem(code, f.url).wantRefused(oauth.InvalidTarget)
		tokens := redeem(code, api).want(http.StatusOK)
		plain := a.code()
		redeem(plain, api).wantRefused(oauth.InvalidTarget) // the user was asked for this server
		redeem(plain, f.url).want(http.StatusOK)
		refresh := []string{"grant_type", "refresh_token", "refresh_token", tokens.text("refresh_token")}
		a.post("/oauth/token", append(refresh, "resource", "urn:example:second")...).wantRefused(oauth.InvalidTarget)

		// Once the audience is gone, its server learns nothing and no tokens are issued for it.
		code = a.code("resource", api)
		server.setAudience("null")
		if server.active(tokens.text("access_token")) {
			t.Error("the client can introspect tokens for an audience that it has no more")
		}
		a.post("/oauth/token", refresh...).wantRefused(oauth.InvalidTarget)
		a.redeem(code).wantRefused(oauth.InvalidTarget)
		server.setAudience(`"` + api + `"`)
		a.wantFor(server, a.post("/oauth/token", refresh...).want(http.StatusOK).text("access_token"))
		if second.active(tokens.text("access_token")) {
			t.Error("another resource server can introspect the token")
		}
	})
}
