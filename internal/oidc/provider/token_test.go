package provider

import (
	"bytes"
	"crypto/sha256"
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
	"steward/internal/oidc/keys"
	"steward/internal/oidc/provider/authorize"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/session"
	paging "steward/internal/page"
)

// claims returns the claims of a token.
func claims(t *testing.T, token any) (out map[string]any) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token.(string), ".")[1])
	must(t, err)
	must(t, json.Unmarshal(raw, &out))
	return out
}

// TestTokenFormat checks access tokens against RFC 9068 and ID tokens against OpenID Connect Core.
// Both must name a published key.
func TestTokenFormat(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		tokens, again := a.tokens(), a.tokens()
		var set struct{ Keys []struct{ Kid, Alg string } }
		must(t, json.Unmarshal([]byte(f.browser().get(f.url+"/jwks").body), &set))
		published := map[any]string{}
		for _, k := range set.Keys {
			published[k.Kid] = k.Alg
		}
		for _, one := range []struct{ field, alg, typ string }{
			{"access_token", "ES256", "at+jwt"}, {"id_token", "RS256", "JWT"},
		} {
			head := header(t, tokens[one.field].(string))
			if head["alg"] != one.alg || head["typ"] != one.typ || published[head["kid"]] != one.alg {
				t.Errorf("%s: %v", one.field, head)
			}
		}
		access, now := claims(t, tokens["access_token"]), float64(f.clock.Now().Unix())
		for name, want := range map[string]any{
			"iss": f.url, "sub": f.userID, "aud": f.url, "client_id": a.id, "scope": "openid profile email offline_access",
			"iat": now, "exp": now + 3600, "auth_time": now,
		} {
			if access[name] != want {
				t.Errorf("access token: %s is %v, want %v", name, access[name], want)
			}
		}
		if access["jti"] == nil || access["jti"] == claims(t, again["access_token"])["jti"] {
			t.Error("two access tokens have the same jti, or none")
		}
		known := claims(t, tokens["id_token"])
		for name, want := range map[string]any{
			"iss": f.url, "sub": f.userID, "aud": a.id, "nonce": "n-0S6", "exp": now + 3600,
		} {
			if known[name] != want {
				t.Errorf("ID token: %s is %v, want %v", name, known[name], want)
			}
		}
	})
}

func TestCodesAndTokensExpireAfterTheLifetimesOfTheClient(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		if grant.CodeLifetime > time.Minute || authorize.PushedLifetime > 90*time.Second ||
			grant.DeviceLifetime > 10*time.Minute {
			t.Error("codes are valid for too long")
		}
		a := f.newApp(strings.Replace(confidential, "{", `{"access_token_lifetime_seconds": 60,
			"id_token_lifetime_seconds": 120, "refresh_token_lifetime_seconds": 300,`, 1))
		tokens, late := a.tokens(), a.code()
		known := claims(t, tokens["id_token"])
		if tokens["expires_in"] != 60.0 || known["exp"].(float64)-known["iat"].(float64) != 120 {
			t.Errorf("got %v", tokens)
		}
		f.clock.add(time.Minute - time.Second)
		f.userinfo(tokens["access_token"].(string)).want(http.StatusOK)
		f.clock.add(time.Second)
		a.wantInvalid(tokens["access_token"], "expired")
		a.redeem(late).wantRefused(oauth.InvalidGrant)
		f.clock.add(3 * time.Minute)
		next := a.refresh(tokens["refresh_token"].(string)).want(http.StatusOK).text("refresh_token")
		f.clock.add(time.Minute)
		a.refresh(next).wantRefused(oauth.InvalidGrant)
	})
}

// TestAccessesAreNoted counts tokens, userinfo and introspections, but not what was refused.
func TestAccessesAreNoted(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		want := func(what string, users ...string) {
			t.Helper()
			if noted, _ := f.calls.take(); !slices.Equal(noted, users) {
				t.Errorf("%s: noted %q, want %q", what, noted, users)
			}
		}
		tokens := a.tokens()
		want("code", f.userID)
		f.userinfo(tokens["access_token"].(string)).want(http.StatusOK)
		want("userinfo", f.userID)
		a.active(tokens["access_token"].(string))
		want("introspection", f.userID)
		a.refresh(tokens["refresh_token"].(string)).want(http.StatusOK)
		want("refresh", f.userID)

		m, b := newProofMaker(t), f.browser()
		machine := func() *response {
			proof := m.proof("once", "POST", f.url+"/oauth/token", "", f.clock.Now())
			return a.postAs(b, "/oauth/token", []string{"grant_type", "client_credentials"}, "DPoP", proof)
		}
		access := machine().want(http.StatusOK).text("access_token")
		want("client_credentials", "")
		a.active(access)
		want("introspection of a token without a user", "")

		machine().wantRefused(oauth.InvalidDPoPProof)
		a.refresh("rt_nothing").want(http.StatusBadRequest)
		f.userinfo("nothing").want(http.StatusUnauthorized)
		a.active("nothing")
		a.redeem("nothing").want(http.StatusBadRequest)
		want("refusals")
	})
}

// TestKeysArePublishedBeforeTheySign rotates keys while a relying party caches the key set for as
// long as it may. A token must name a key of the cached set, even if a replica served it that
// learned of the new key late.
func TestKeysArePublishedBeforeTheySign(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		cached := f.browser().get(f.url + "/jwks").want(http.StatusOK)
		age, err := time.ParseDuration(strings.TrimPrefix(cached.header.Get("Cache-Control"), "public, max-age=") + "s")
		must(t, err)
		if age > keys.PublishTime-5*time.Second {
			t.Errorf("the set may be cached for %s, and a key signs after %s", age, keys.PublishTime)
		}
		a := f.newApp(confidential)
		seen := map[any]bool{}
		for range 6 {
			token := a.post("/oauth/token", "grant_type", "client_credentials").want(http.StatusOK).text("access_token")
			kid := header(t, token)["kid"]
			if !strings.Contains(cached.body, kid.(string)) {
				t.Errorf("a token names %s, which the cached set lacks", kid)
			}
			seen[kid] = true
			cached = f.browser().get(f.url + "/jwks")
			f.clock.add(age)
			if _, err := f.keys.Rotate(f.ctx); err != nil {
				t.Fatal(err)
			}
		}
		if len(seen) < 4 {
			t.Errorf("%d keys signed", len(seen))
		}
	})
}

// TestConsentPageShowsTheRequestedScopes also checks that a required scope cannot be declined and
// that no scope can be added.
func TestConsentPageShowsTheRequestedScopes(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a, b := f.newApp(confidential), f.browser()
		asked := []string{"openid", "email", "webhook:write"}
		page := b.signIn(b.get(a.authorizeURL("scope", strings.Join(asked, " "))))
		text := strings.NewReplacer("&#39;", "'", "&amp;", "&").Replace(page.want(http.StatusOK).body)
		for _, s := range oidc.Scopes() {
			shown := strings.Contains(text, ">"+s.ConsentTitle) && strings.Contains(text, ">"+s.ConsentDescription+"<")
			if shown != slices.Contains(asked, s.Name) {
				t.Errorf("%s: shown is %t", s.Name, shown)
			}
		}
		if strings.Count(text, ">sensitive<") != 1 {
			t.Error("not exactly the sensitive scope is marked")
		}
		_, action, values := page.form()
		values["scope"] = []string{"email"} // declines webhook:write and tries to decline openid
		tokens := a.redeem(b.complete(b.do("POST", f.url+action, values)).Get("code")).want(http.StatusOK)
		if got := tokens.text("scope"); got != "openid email" {
			t.Errorf("got %q", got)
		}
		values["scope"] = []string{"webhook:read"} // was not requested
		tokens = a.redeem(b.complete(b.do("POST", f.url+action, values)).Get("code")).want(http.StatusOK)
		if got := tokens.text("scope"); got != "openid email" {
			t.Errorf("a scope was added to the form: %q", got)
		}
	})
}

func TestNarrowedConsentRevokesTokensAndWiderConsentDoesNot(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a, b := f.newApp(confidential), f.browser()
		agree := func(scopes string, declined string) map[string]any {
			t.Helper()
			page := b.get(a.authorizeURL("scope", scopes, "prompt", "consent"))
			if strings.Contains(page.body, `name="password"`) {
				page = b.signIn(page)
			}
			_, action, values := page.want(http.StatusOK).form()
			values["scope"] = slices.DeleteFunc(values["scope"], func(s string) bool { return s == declined })
			return a.redeem(b.complete(b.do("POST", f.url+action, values)).Get("code")).want(http.StatusOK).json()
		}
		first := agree("openid email offline_access", "")
		wide := agree("openid email offline_access webhook:write", "")
		f.userinfo(first["access_token"].(string)).want(http.StatusOK)
		narrow := agree("openid email offline_access webhook:write", "webhook:write")
		a.wantInvalid(wide["access_token"], "webhook:write was revoked")
		a.refresh(wide["refresh_token"].(string)).wantRefused(oauth.InvalidGrant)
		f.userinfo(narrow["access_token"].(string)).want(http.StatusOK)
		a.refresh(narrow["refresh_token"].(string)).want(http.StatusOK)
		var users int
		const query = `SELECT user_count FROM oidc_client_states WHERE client_id = $1`
		must(t, f.db.Read(t.Context()).Row(query, a.id).Scan(&users))
		if users != 1 {
			t.Errorf("%d users are counted", users)
		}
	})
}

func TestDiscoveryDocument(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.browser()
		one := b.get(f.url + "/.well-known/openid-configuration").want(http.StatusOK).json()
		if two := b.get(f.url + "/.well-known/oauth-authorization-server").want(http.StatusOK).json(); len(two) != len(one) {
			t.Error("the two documents differ")
		}
		paths := map[string]string{
			"authorization_endpoint": "/authorize", "token_endpoint": "/oauth/token",
			"userinfo_endpoint": "/userinfo", "jwks_uri": "/jwks",
			"introspection_endpoint": "/introspect", "revocation_endpoint": "/revoke", "end_session_endpoint": "/end_session",
			"pushed_authorization_request_endpoint": "/par", "device_authorization_endpoint": "/device_authorization",
		}
		for name := range paths {
			if one[name] != f.url+paths[name] {
				t.Errorf("%s is %v", name, one[name])
			}
		}
		for name, want := range map[string]string{
			"issuer": `"` + f.url + `"`, "response_types_supported": `["code"]`, "code_challenge_methods_supported": `["S256"]`,
			"id_token_signing_alg_values_supported": `["RS256"]`, "authorization_response_iss_parameter_supported": `true`,
			"grant_types_supported": `["authorization_code","refresh_token","client_credentials",` +
				`"urn:ietf:params:oauth:grant-type:device_code"]`,
		} {
			if got, _ := json.Marshal(one[name]); string(got) != want {
				t.Errorf("%s is %s", name, got)
			}
		}
	})
}

func TestRefreshNeverWidensTheScopes(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		token := a.tokens("scope", "openid email offline_access webhook:read")["refresh_token"].(string)
		request := func(scope string) *response {
			return a.post("/oauth/token", "grant_type", "refresh_token", "refresh_token", token, "scope", scope)
		}
		request("openid webhook:write").wantRefused(oauth.InvalidScope)
		request("openid profile").wantRefused(oauth.InvalidScope)
		if got := request("openid email").want(http.StatusOK).text("scope"); got != "openid email" {
			t.Errorf("got %q", got)
		}
		if got := request("").want(http.StatusOK).text("scope"); got != "openid email offline_access webhook:read" {
			t.Errorf("got %q, want all scopes", got)
		}
		var patch oidc.ClientPatch
		must(t, json.Unmarshal([]byte(`{"scopes": ["openid", "offline_access"]}`), &patch))
		_, err := f.clients.Store.Update(f.ctx, auth.From(f.ctx), a.id, paging.IfMatch{}, patch)
		must(t, err)
		if got := request("").want(http.StatusOK).text("scope"); got != "openid offline_access" {
			t.Errorf("got %q after scopes of the client were removed", got)
		}
	})
}

func TestCredentialsAreStoredAsHashes(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a, device, b := f.newApp(confidential), f.newApp(public), f.browser()
		code := b.complete(b.get(a.authorizeURL())).Get("code")
		at, err := url.Parse(f.url)
		must(t, err)
		cookie := ""
		for _, c := range b.http.Jar.Cookies(at) {
			if c.Name == session.CookieName {
				cookie = c.Value
			}
		}
		pushed := a.post("/par", "response_type", "code", "redirect_uri", callback, "scope", "openid")
		pushed.want(http.StatusCreated)
		handle := strings.TrimPrefix(pushed.text("request_uri"), "urn:ietf:params:oauth:request_uri:")
		for _, one := range []struct{ query, secret string }{
			{`SELECT code_hash FROM oidc_grants WHERE code_hash IS NOT NULL`, code},
			{`SELECT token_hash FROM oidc_sessions`, cookie},
			{`SELECT id_hash FROM oidc_pushed`, handle},
			{`SELECT code_hash FROM oidc_devices`, device.post("/device_authorization").want(http.StatusOK).text("device_code")},
			{`SELECT secret_hash FROM oidc_clients WHERE secret_hash IS NOT NULL`, a.secret},
		} {
			var stored []byte
			must(t, f.db.Read(t.Context()).Row(one.query).Scan(&stored))
			if sum := sha256.Sum256([]byte(one.secret)); one.secret == "" || !bytes.Equal(stored, sum[:]) {
				t.Errorf("%s: %d bytes are not the SHA-256 of the secret", one.query, len(stored))
			}
		}
	})
}

// TestSignInReplacesTheCookie checks that a cookie which somebody has planted or copied before a
// sign-in is useless after it.
func TestSignInReplacesTheCookie(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a, b := f.newApp(confidential), f.browser()
		at, err := url.Parse(f.url)
		must(t, err)
		b.complete(b.get(a.authorizeURL()))
		before, thief := b.http.Jar.Cookies(at), f.browser()
		thief.http.Jar.SetCookies(at, before)
		quiet := a.authorizeURL("prompt", "none")
		if !strings.Contains(thief.get(quiet).header.Get("Location"), "code=") {
			t.Fatal("the copied cookie does not work at first")
		}
		b.complete(b.get(a.authorizeURL("prompt", "login")))
		if !strings.Contains(b.get(quiet).header.Get("Location"), "code=") {
			t.Error("the new cookie does not work")
		}
		if !strings.Contains(thief.get(quiet).header.Get("Location"), "login_required") {
			t.Error("the old cookie still works")
		}
		fresh := f.browser()
		page := fresh.get(a.authorizeURL())
		in := fresh.submit(page, "email", ownerEmail, "password", ownerPassword).want(http.StatusSeeOther)
		set := append(page.header.Values("Set-Cookie"), in.header.Values("Set-Cookie")...)
		for _, c := range set {
			if !strings.Contains(c, "HttpOnly") || !strings.Contains(c, "SameSite=Lax") {
				t.Errorf("got cookie %s", c)
			}
		}
		if len(set) != 3 {
			t.Errorf("%d cookies, want those of the form, the session and the device", len(set))
		}
	})
}

// TestTokenResponsesAreCounted checks the hooks for metrics. A grant type that the endpoint does
// not know has a fixed label, so that clients cannot make up new ones.
func TestTokenResponsesAreCounted(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		token := a.tokens()["refresh_token"].(string)
		a.refresh(token).want(http.StatusOK)
		a.refresh("rt_nothing").want(http.StatusBadRequest)
		a.post("/oauth/token", "grant_type", "password").want(http.StatusBadRequest)
		(&app{f: f, id: a.id, secret: "wrong"}).refresh(token).want(http.StatusUnauthorized)
		f.browser().do("POST", f.url+"/oauth/token", nil).want(http.StatusBadRequest)
		want := []string{
			"issued authorization_code", "issued refresh_token", "refused refresh_token invalid_grant",
			"refused unknown unsupported_grant_type", "refused refresh_token invalid_client", "refused unknown invalid_request",
		}
		if _, lines := f.calls.take(); !slices.Equal(lines, want) {
			t.Errorf("got %q, want %q", lines, want)
		}
	})
}
