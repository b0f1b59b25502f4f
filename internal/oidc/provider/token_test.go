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
	"sync"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
	paging "steward/internal/page"
)

// claims reads what a token says.
func claims(t *testing.T, token any) (out map[string]any) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token.(string), ".")[1])
	must(t, err)
	must(t, json.Unmarshal(raw, &out))
	return out
}

// Access tokens have the form of RFC 9068, ID tokens that of OpenID Connect, and both name a key that is published.
func TestFormOfTokens(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		tokens, again := a.tokens(), a.tokens()
		var set struct{ Keys []struct{ Kid, Alg string } }
		must(t, json.Unmarshal([]byte(h.browser().get(h.url+"/jwks").body), &set))
		published := map[any]string{}
		for _, k := range set.Keys {
			published[k.Kid] = k.Alg
		}
		for _, one := range []struct{ field, alg, typ string }{{"access_token", "ES256", "at+jwt"}, {"id_token", "RS256", "JWT"}} {
			head := header(t, tokens[one.field].(string))
			if head["alg"] != one.alg || head["typ"] != one.typ || published[head["kid"]] != one.alg {
				t.Errorf("%s: %v", one.field, head)
			}
		}
		access, now := claims(t, tokens["access_token"]), float64(h.clock.Now().Unix())
		for name, want := range map[string]any{
			"iss": h.url, "sub": h.userID, "aud": h.url, "client_id": a.id, "scope": "openid profile email offline_access", "iat": now,
			"exp": now + 3600, "auth_time": now,
		} {
			if access[name] != want {
				t.Errorf("access token: %s is %v, want %v", name, access[name], want)
			}
		}
		if access["jti"] == nil || access["jti"] == claims(t, again["access_token"])["jti"] {
			t.Error("two access tokens have the same jti, or none")
		}
		known := claims(t, tokens["id_token"])
		for name, want := range map[string]any{"iss": h.url, "sub": h.userID, "aud": a.id, "nonce": "n-0S6", "exp": now + 3600} {
			if known[name] != want {
				t.Errorf("ID token: %s is %v, want %v", name, known[name], want)
			}
		}
	})
}

// Codes, access, ID and refresh tokens end in time, each client's in its own, and no refresh makes a family live longer.
func TestLifetimes(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		if codeLife > time.Minute || pushedLife > 90*time.Second || deviceLife > 10*time.Minute {
			t.Error("codes live too long")
		}
		a := h.newApp(strings.Replace(confidential, "{", `{"access_token_lifetime_seconds": 60, "id_token_lifetime_seconds": 120,
			"refresh_token_lifetime_seconds": 300,`, 1))
		tokens, late := a.tokens(), a.code()
		known := claims(t, tokens["id_token"])
		if tokens["expires_in"] != 60.0 || known["exp"].(float64)-known["iat"].(float64) != 120 {
			t.Errorf("got %v", tokens)
		}
		h.clock.add(time.Minute - time.Second)
		h.userinfo(tokens["access_token"].(string)).want(http.StatusOK)
		h.clock.add(time.Second)
		a.dead(tokens["access_token"], "its time is up")
		a.redeem(late).fault(http.StatusBadRequest, invalidGrant)
		h.clock.add(3 * time.Minute)
		next := a.refresh(tokens["refresh_token"].(string)).want(http.StatusOK).text("refresh_token")
		h.clock.add(time.Minute)
		a.refresh(next).fault(http.StatusBadRequest, invalidGrant)
	})
}

// An access is a token issued, or a userinfo or introspection answered; what is refused is none.
func TestAccessesAreNoted(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		var mu sync.Mutex
		var noted []string
		h.provider.Note = func(_, userID string) {
			mu.Lock()
			defer mu.Unlock()
			noted = append(noted, userID)
		}
		a := h.newApp(confidential)
		want := func(what string, users ...string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(noted, users) {
				t.Errorf("%s: noted %q, want %q", what, noted, users)
			}
			noted = nil
		}
		tokens := a.tokens()
		want("code", h.userID)
		h.userinfo(tokens["access_token"].(string)).want(http.StatusOK)
		want("userinfo", h.userID)
		a.active(tokens["access_token"].(string))
		want("introspection", h.userID)
		a.refresh(tokens["refresh_token"].(string)).want(http.StatusOK)
		want("refresh", h.userID)

		m, b := h.proofMaker(t), h.browser()
		machine := func() *reply {
			proof := m.proof("once", "POST", h.url+"/oauth/token", "", h.clock.Now())
			return a.postAs(b, "/oauth/token", []string{"grant_type", "client_credentials"}, "DPoP", proof)
		}
		access := machine().want(http.StatusOK).text("access_token")
		want("client_credentials", "")
		a.active(access)
		want("introspection of a token without a user", "")

		machine().fault(http.StatusBadRequest, invalidProof)
		a.refresh("rt_nothing").want(http.StatusBadRequest)
		h.userinfo("nothing").want(http.StatusUnauthorized)
		a.active("nothing")
		a.redeem("nothing").want(http.StatusBadRequest)
		want("refusals")
	})
}

// A rotation is seen by nobody who keeps the key set for as long as they may: what signs is in every set that can be in use, also in one
// that a replica which heard of the new key a second late gave out.
func TestKeysAreKnownBeforeTheySign(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		kept := h.browser().get(h.url + "/jwks").want(http.StatusOK)
		age, err := time.ParseDuration(strings.TrimPrefix(kept.header.Get("Cache-Control"), "public, max-age=") + "s")
		must(t, err)
		if age > keys.Settle-5*time.Second {
			t.Errorf("the set is kept for %s, and a key signs after %s: a replica that is late gives out a set without it", age, keys.Settle)
		}
		a := h.newApp(confidential)
		seen := map[any]bool{}
		for range 6 {
			token := a.post("/oauth/token", "grant_type", "client_credentials").want(http.StatusOK).text("access_token")
			kid := header(t, token)["kid"]
			if !strings.Contains(kept.body, kid.(string)) {
				t.Errorf("a token names %s, which the kept set lacks", kid)
			}
			seen[kid] = true
			kept = h.browser().get(h.url + "/jwks")
			h.clock.add(age)
			if _, err := h.keys.Rotate(h.ctx); err != nil {
				t.Fatal(err)
			}
		}
		if len(seen) < 4 {
			t.Errorf("%d keys signed", len(seen))
		}
	})
}

// The pages speak the words of the catalogue, for what is asked alone, and a required scope cannot be left out.
func TestConsentSpeaksTheCatalogue(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a, b := h.newApp(confidential), h.browser()
		asked := []string{"openid", "email", "webhook:write"}
		page := b.follow(b.submit(b.get(a.authorizeURL("scope", strings.Join(asked, " "))), "email", ownerEmail, "password", ownerPassword))
		text := strings.NewReplacer("&#39;", "'", "&amp;", "&").Replace(page.want(http.StatusOK).body)
		for _, s := range oidc.Scopes() {
			shown := strings.Contains(text, ">"+s.ConsentTitle) && strings.Contains(text, ">"+s.ConsentDescription+"<")
			if shown != slices.Contains(asked, s.Name) {
				t.Errorf("%s: shown is %t", s.Name, shown)
			}
		}
		if strings.Count(text, "look twice") != 1 {
			t.Error("the sensitive scope is not marked, or another one is")
		}
		_, action, values := page.form()
		values["scope"] = []string{"email"} // declines webhook:write, and leaves out openid, which cannot be declined
		tokens := a.redeem(b.through(b.do("POST", h.url+action, values)).Get("code")).want(http.StatusOK)
		if got := tokens.text("scope"); got != "openid email" {
			t.Errorf("got %q", got)
		}
		values["scope"] = []string{"webhook:read"} // was never asked for
		tokens = a.redeem(b.through(b.do("POST", h.url+action, values)).Get("code")).want(http.StatusOK)
		if got := tokens.text("scope"); got != "openid email" {
			t.Errorf("a scope was added by hand: %q", got)
		}
	})
}

// Whoever takes back a part of what they agreed to ends the tokens that carry it; agreeing to more ends nothing.
func TestNarrowedConsentEndsWiderTokens(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a, b := h.newApp(confidential), h.browser()
		agree := func(scopes string, declined string) map[string]any {
			t.Helper()
			page := b.get(a.authorizeURL("scope", scopes, "prompt", "consent"))
			if strings.Contains(page.body, `name="password"`) {
				page = b.follow(b.submit(page, "email", ownerEmail, "password", ownerPassword))
			}
			_, action, values := page.want(http.StatusOK).form()
			values["scope"] = slices.DeleteFunc(values["scope"], func(s string) bool { return s == declined })
			return a.redeem(b.through(b.do("POST", h.url+action, values)).Get("code")).want(http.StatusOK).json()
		}
		first := agree("openid email offline_access", "")
		wide := agree("openid email offline_access webhook:write", "")
		h.userinfo(first["access_token"].(string)).want(http.StatusOK)
		narrow := agree("openid email offline_access webhook:write", "webhook:write")
		a.dead(wide["access_token"], "webhook:write was taken back")
		a.refresh(wide["refresh_token"].(string)).fault(http.StatusBadRequest, invalidGrant)
		h.userinfo(narrow["access_token"].(string)).want(http.StatusOK)
		a.refresh(narrow["refresh_token"].(string)).want(http.StatusOK)
		var users int
		must(t, h.db.Read(t.Context()).Row(`SELECT user_count FROM oidc_client_states WHERE client_id = $1`, a.id).Scan(&users))
		if users != 1 {
			t.Errorf("%d users are counted", users)
		}
	})
}

// Discovery says what is there, in both of its places.
func TestDiscovery(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		b := h.browser()
		one := b.get(h.url + "/.well-known/openid-configuration").want(http.StatusOK).json()
		if two := b.get(h.url + "/.well-known/oauth-authorization-server").want(http.StatusOK).json(); len(two) != len(one) {
			t.Error("two documents")
		}
		paths := map[string]string{
			"authorization_endpoint": "/authorize", "token_endpoint": "/oauth/token", "userinfo_endpoint": "/userinfo", "jwks_uri": "/jwks",
			"introspection_endpoint": "/introspect", "revocation_endpoint": "/revoke", "end_session_endpoint": "/end_session",
			"pushed_authorization_request_endpoint": "/par", "device_authorization_endpoint": "/device_authorization",
		}
		for name := range paths {
			if one[name] != h.url+paths[name] {
				t.Errorf("%s is %v", name, one[name])
			}
		}
		for name, want := range map[string]string{
			"issuer": `"` + h.url + `"`, "response_types_supported": `["code"]`, "code_challenge_methods_supported": `["S256"]`,
			"id_token_signing_alg_values_supported": `["RS256"]`, "authorization_response_iss_parameter_supported": `true`,
			"grant_types_supported": `["authorization_code","refresh_token","client_credentials","urn:ietf:params:oauth:grant-type:device_code"]`,
		} {
			if got, _ := json.Marshal(one[name]); string(got) != want {
				t.Errorf("%s is %s", name, got)
			}
		}
	})
}

// A refresh gives what was granted or less, never more, and no more than the client may have today.
func TestRefreshNeverWidens(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		token := a.tokens("scope", "openid email offline_access webhook:read")["refresh_token"].(string)
		ask := func(scope string) *reply {
			return a.post("/oauth/token", "grant_type", "refresh_token", "refresh_token", token, "scope", scope)
		}
		ask("openid webhook:write").fault(http.StatusBadRequest, invalidScope)
		ask("openid profile").fault(http.StatusBadRequest, invalidScope)
		if got := ask("openid email").want(http.StatusOK).text("scope"); got != "openid email" {
			t.Errorf("narrowed to %q", got)
		}
		if got := ask("").want(http.StatusOK).text("scope"); got != "openid email offline_access webhook:read" {
			t.Errorf("all of it is %q", got)
		}
		var patch oidc.ClientPatch
		must(t, json.Unmarshal([]byte(`{"scopes": ["openid", "offline_access"]}`), &patch))
		_, err := h.clients.Store.Update(h.ctx, auth.From(h.ctx), a.id, paging.IfMatch{}, patch)
		must(t, err)
		if got := ask("").want(http.StatusOK).text("scope"); got != "openid offline_access" {
			t.Errorf("after the client lost scopes it is %q", got)
		}
	})
}

// Whoever reads the database finds nothing there that opens anything: codes, handles, cookies and secrets are stored as hashes.
func TestStoredAsHashes(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a, device, b := h.newApp(confidential), h.newApp(public), h.browser()
		code := b.through(b.get(a.authorizeURL())).Get("code")
		at, err := url.Parse(h.url)
		must(t, err)
		cookie := ""
		for _, c := range b.http.Jar.Cookies(at) {
			if c.Name == sessionCookie {
				cookie = c.Value
			}
		}
		form := a.params()
		pushed := a.post("/par", "response_type", "code", "redirect_uri", form.Get("redirect_uri"), "scope", "openid").want(http.StatusCreated)
		for _, one := range []struct{ query, secret string }{
			{`SELECT code_hash FROM oidc_grants WHERE code_hash IS NOT NULL`, code},
			{`SELECT token_hash FROM oidc_sessions`, cookie},
			{`SELECT id_hash FROM oidc_pushed`, strings.TrimPrefix(pushed.text("request_uri"), pushedPrefix)},
			{`SELECT code_hash FROM oidc_devices`, device.post("/device_authorization").want(http.StatusOK).text("device_code")},
			{`SELECT secret_hash FROM oidc_clients WHERE secret_hash IS NOT NULL`, a.secret},
		} {
			var stored []byte
			must(t, h.db.Read(t.Context()).Row(one.query).Scan(&stored))
			if sum := sha256.Sum256([]byte(one.secret)); one.secret == "" || !bytes.Equal(stored, sum[:]) {
				t.Errorf("%s gives %d bytes that are not the SHA-256 of %d", one.query, len(stored), len(one.secret))
			}
		}
	})
}

// A sign-in gives the browser a new cookie, so that one which somebody put there or saw before is worth nothing.
func TestSignInGivesANewCookie(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a, b := h.newApp(confidential), h.browser()
		at, err := url.Parse(h.url)
		must(t, err)
		b.through(b.get(a.authorizeURL()))
		before, thief := b.http.Jar.Cookies(at), h.browser()
		thief.http.Jar.SetCookies(at, before)
		quiet := a.authorizeURL("prompt", "none")
		if !strings.Contains(thief.get(quiet).header.Get("Location"), "code=") {
			t.Fatal("the copied cookie does not work at first")
		}
		b.through(b.get(a.authorizeURL("prompt", "login")))
		if !strings.Contains(b.get(quiet).header.Get("Location"), "code=") {
			t.Error("the new cookie does not work")
		}
		if !strings.Contains(thief.get(quiet).header.Get("Location"), "login_required") {
			t.Error("the old cookie works still")
		}
		fresh := h.browser()
		page := fresh.get(a.authorizeURL())
		in := fresh.submit(page, "email", ownerEmail, "password", ownerPassword).want(http.StatusSeeOther)
		set := append(page.header.Values("Set-Cookie"), in.header.Values("Set-Cookie")...)
		for _, c := range set {
			if !strings.Contains(c, "HttpOnly") || !strings.Contains(c, "SameSite=Lax") {
				t.Errorf("a cookie is %s", c)
			}
		}
		if len(set) != 2 {
			t.Errorf("%d cookies", len(set))
		}
	})
}
