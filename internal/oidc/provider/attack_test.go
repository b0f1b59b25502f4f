package provider

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/auth"
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/oauth"
	paging "steward/internal/page"
)

// TestVerifierMustMatchTheChallenge includes the downgrade: a verifier without a challenge.
func TestVerifierMustMatchTheChallenge(t *testing.T) {
	each(t, func(_ *testing.T, f *fixture) {
		a := f.newApp(confidential)
		redeem := func(code, with string) *response {
			return a.post("/oauth/token", "grant_type", "authorization_code", "code", code, "redirect_uri", callback,
				"code_verifier", with)
		}
		code := a.code()
		redeem(code, strings.Repeat("x", 43)).wantRefused(oauth.InvalidGrant)
		redeem(code, verifier).wantRefused(oauth.InvalidGrant) // the code is used up
		redeem(a.code(), "").wantRefused(oauth.InvalidGrant)
		redeem(a.code("code_challenge", "", "code_challenge_method", ""), verifier).wantRefused(oauth.InvalidGrant)
		redeem(a.code("code_challenge", "", "code_challenge_method", ""), "").want(http.StatusOK)
	})
}

func TestPKCEIsRequired(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		refused := func(a *app, pairs ...string) {
			t.Helper()
			r := f.browser().get(a.authorizeURL(pairs...)).want(http.StatusSeeOther)
			if !strings.Contains(r.header.Get("Location"), "error=invalid_request") {
				t.Fatalf("got %s", r.header.Get("Location"))
			}
		}
		a := f.newApp(public)
		refused(a, "code_challenge", "", "code_challenge_method", "")
		refused(a, "code_challenge_method", "plain")
		refused(a, "code_challenge_method", "")
		refused(a, "code_challenge", "too-short")
		a.tokens()
		f.provider.authorize.RequirePKCE = true
		refused(f.newApp(confidential), "code_challenge", "", "code_challenge_method", "")
	})
}

// TestUnregisteredRedirectURIIsNotRedirected expects an error page for every redirect URI that is
// not exactly a registered one.
func TestUnregisteredRedirectURIIsNotRedirected(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(`{"redirect_uris": ["https://rp.example.com/callback", "http://127.0.0.1/cb", "http://localhost/cb"]}`)
		for _, uri := range []string{
			"", "https://evil.example.com/callback", "https://rp.example.com/callback/", "https://rp.example.com/callback/more",
			"https://rp.example.com/callback#frag", "https://rp.example.com/callback#", "https://rp.example.com/callback?x=1",
			"https://rp.example.com.evil.com/callback", "https://rp.example.com/CALLBACK",
			"https://rp.example.com@evil.com/callback", "HTTPS://rp.example.com/callback", "http://rp.example.com/callback",
			"//rp.example.com/callback",
			"https://rp.example.com:443/callback", "https://rp.example.com/x/../callback", "http://127.0.0.1:80@evil.com/cb",
			"http://127.0.0.1.evil.com/cb",
			"http://127.0.0.2/cb", "http://localhost:1234/cb", "http://127.0.0.1:99999/cb", "http://127.0.0.1:80/cb/x",
			"javascript:alert(1)", "data:text/html,x",
		} {
			r := f.browser().get(a.authorizeURL("redirect_uri", uri))
			if r.status != http.StatusBadRequest || r.header.Get("Location") != "" || !strings.Contains(r.body, "<h1>") {
				t.Errorf("%q got %d, Location %q", uri, r.status, r.header.Get("Location"))
			}
		}
		for _, uri := range []string{"https://rp.example.com/callback", "http://127.0.0.1:43210/cb", "http://127.0.0.1/cb"} {
			f.browser().get(a.authorizeURL("redirect_uri", uri)).want(http.StatusOK)
		}
		twice := a.params()
		twice.Add("redirect_uri", "https://evil.example.com/")
		f.browser().get(f.url + "/authorize?" + twice.Encode()).want(http.StatusBadRequest)
		code := a.code("redirect_uri", "http://127.0.0.1:43210/cb")
		a.redeem(code).wantRefused(oauth.InvalidGrant)                             // the redirect_uri is another one
		f.browser().get(f.newApp(`{}`).authorizeURL()).want(http.StatusBadRequest) // it has registered none
		unknown := &app{f: f, id: "oac_01h00000000000000000000000"}
		f.browser().get(unknown.authorizeURL()).want(http.StatusBadRequest)
	})
}

// TestForgedAlgorithmsAreRefused presents tokens with `none`, with the algorithm of another key,
// with a public key as an HMAC secret, and with another type.
func TestForgedAlgorithmsAreRefused(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		tokens := a.tokens()
		parts := strings.Split(tokens["access_token"].(string), ".")
		encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
		a.wantInvalid(encode(`{"alg":"none","typ":"at+jwt"}`)+"."+parts[1]+".", "alg none")
		a.wantInvalid(encode(`{"alg":"None","typ":"at+jwt"}`)+"."+parts[1]+"."+parts[2], "alg None")
		a.wantInvalid(parts[0]+"."+parts[1]+"."+parts[2][:len(parts[2])-4]+"AAAA", "changed signature")
		a.wantInvalid(tokens["id_token"], "an ID token")

		set, err := f.keys.Set(t.Context())
		must(t, err)
		var claims jwt.AccessClaims
		payload, err := base64.RawURLEncoding.DecodeString(parts[1])
		must(t, err)
		must(t, json.Unmarshal(payload, &claims))
		forge := func(alg jose.SignatureAlgorithm, kid string, key any, typ string) string {
			options := (&jose.SignerOptions{}).WithType(jose.ContentType(typ)).WithHeader("kid", kid)
			s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
			must(t, err)
			text, err := josejwt.Signed(s).Claims(claims).Serialize()
			must(t, err)
			return text
		}
		ecKid, ecKey := set.Signing(keys.ForAccessTokens)
		rsaKid, rsaKey := set.Signing(keys.ForIDTokens)
		public, err := json.Marshal(set.JWKS().Keys[0])
		must(t, err)
		f.userinfo(forge(jose.ES256, ecKid, ecKey, "at+jwt")).want(http.StatusOK) // unchanged, it is accepted
		a.wantInvalid(forge(jose.HS256, ecKid, public, "at+jwt"), "HS256 with a public key")
		a.wantInvalid(forge(jose.RS256, rsaKid, rsaKey, "at+jwt"), "RS256 instead of ES256")
		a.wantInvalid(forge(jose.ES256, ecKid, ecKey, "JWT"), "another typ")
		a.wantInvalid(forge(jose.ES256, "", ecKey, "at+jwt"), "no kid")
		claims.Issuer = "https://evil.example.com"
		a.wantInvalid(forge(jose.ES256, ecKid, ecKey, "at+jwt"), "another issuer")
	})
}

func TestDeletingAClientRevokesItsCodesAndTokens(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a, code := f.newApp(confidential), ""
		tokens := a.tokens()
		code = a.code()
		machine := a.post("/oauth/token", "grant_type", "client_credentials").want(http.StatusOK).text("access_token")
		must(t, f.clients.Store.Delete(f.ctx, f.orgID, a.id, paging.IfMatch{}))
		a.wantInvalid(tokens["access_token"], "client deleted")
		a.wantInvalid(machine, "client deleted")
		a.refresh(tokens["refresh_token"].(string)).wantError(http.StatusUnauthorized, oauth.InvalidClient)
		a.redeem(code).wantError(http.StatusUnauthorized, oauth.InvalidClient)
		f.browser().get(a.authorizeURL()).want(http.StatusBadRequest)
	})
}

func TestRevokingAUserRevokesTheirTokensOnly(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		f.newUser("other@example.com", "another password")
		b := f.browser()
		result := b.completeAs(b.get(a.authorizeURL()), "other@example.com", "another password")
		other := a.redeem(result.Get("code")).want(http.StatusOK).json()
		tokens, code, machine := a.tokens(), a.code(), a.machineToken()
		must(t, f.clients.Store.RevokeUser(f.ctx, f.orgID, a.id, f.userID))
		a.wantInvalid(tokens["access_token"], "user revoked")
		a.refresh(tokens["refresh_token"].(string)).wantRefused(oauth.InvalidGrant)
		a.redeem(code).wantRefused(oauth.InvalidGrant)
		f.userinfo(other["access_token"].(string)).want(http.StatusOK)
		// A new consent does not make the old tokens valid again.
		f.userinfo(a.tokens()["access_token"].(string)).want(http.StatusOK)
		a.wantInvalid(tokens["access_token"], "user revoked, then consented again")
		must(t, f.clients.Store.RevokeAll(f.ctx, f.orgID, a.id))
		a.wantInvalid(other["access_token"], "all users revoked")
		if !a.active(machine) {
			t.Error("revoking all users has revoked a token of the client itself")
		}
	})
}

// TestTokensOfRotatedKeys checks that a token is valid until it expires although its key was
// rotated, and that a removed key verifies nothing, not even a new token of somebody who has kept
// the private key.
func TestTokensOfRotatedKeys(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(strings.Replace(confidential, "{", `{"access_token_lifetime_seconds": 86400,`, 1))
		before := a.tokens()["access_token"].(string)
		old, err := f.keys.Set(t.Context())
		must(t, err)
		f.clock.add(2 * keys.PublishTime)
		rotated, err := f.keys.Rotate(f.ctx)
		must(t, err)
		if !rotated {
			t.Fatal("not rotated")
		}
		after := a.tokens()["access_token"].(string)
		if header(t, before)["kid"] == header(t, after)["kid"] {
			t.Error("the new token has the kid of the old key")
		}
		f.clock.add(24*time.Hour - 3*keys.PublishTime)
		must(t, f.keys.Maintain(f.ctx))
		f.userinfo(before).want(http.StatusOK) // in its last minute

		f.clock.add(keys.RetainTime - 24*time.Hour + 4*keys.PublishTime)
		a.wantInvalid(before, "expired")
		client := &oidc.Registered{Client: oidc.Client{ID: a.id, OrgID: f.orgID}, Epoch: 1}
		claims := f.provider.token.Tokens.NewAccess(client, a.id, nil, "")
		kid, signer := old.Signing(keys.ForAccessTokens)
		key := jose.SigningKey{Algorithm: keys.ForAccessTokens, Key: jose.JSONWebKey{KeyID: kid, Key: signer}}
		s, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("at+jwt"))
		must(t, err)
		late, err := josejwt.Signed(s).Claims(claims).Serialize()
		must(t, err)
		if !a.active(late) {
			t.Fatal("the forged token is not accepted while its key is published")
		}
		must(t, f.keys.Maintain(f.ctx))
		a.wantInvalid(late, "key removed")
	})
}

func header(t *testing.T, token string) (out map[string]any) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
	must(t, err)
	must(t, json.Unmarshal(raw, &out))
	return out
}

// TestConsentIsProtectedAgainstCSRF sends the consent form without a token, with that of another
// browser, and from another site.
func TestConsentIsProtectedAgainstCSRF(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		b := f.browser()
		page := b.signIn(b.get(a.authorizeURL())).want(http.StatusOK)
		_, action, values := page.form()
		send := func(change func(url.Values), headers ...string) {
			t.Helper()
			forged := url.Values{}
			for name, v := range values {
				forged[name] = v
			}
			change(forged)
			r := b.do("POST", f.url+action, forged, headers...)
			if r.status != http.StatusForbidden || r.header.Get("Location") != "" {
				t.Errorf("got %d, Location %q", r.status, r.header.Get("Location"))
			}
		}
		send(func(v url.Values) { v.Del("csrf") })
		send(func(v url.Values) { v.Set("csrf", "x") })
		other := f.browser()
		_, _, others := other.get(a.authorizeURL()).form()
		send(func(v url.Values) { v.Set("csrf", others.Get("csrf")) })
		send(func(url.Values) {}, "Sec-Fetch-Site", "cross-site")
		send(func(url.Values) {}, "Origin", "https://evil.example.com")
		if given, err := f.clients.Store.Consent(t.Context(), a.id, f.userID); err != nil || given != nil {
			t.Fatalf("a consent was stored: %v %v", given, err)
		}
		// The page of one user is not the consent of another one who has signed in since.
		another := f.newUser("other@example.com", "another password")
		again := b.get(a.authorizeURL("prompt", "login"))
		b.follow(b.submit(again, "email", "other@example.com", "password", "another password")).want(http.StatusOK)
		b.do("POST", f.url+action, values).want(http.StatusOK)
		for _, userID := range []string{f.userID, another} {
			if given, err := f.clients.Store.Consent(t.Context(), a.id, userID); err != nil || given != nil {
				t.Fatalf("a consent was stored: %v %v", given, err)
			}
		}
		// On plain HTTP off loopback a browser sends no Sec-Fetch-Site, but the origin.
		own := b.follow(b.get(a.authorizeURL())).want(http.StatusOK)
		_, action, values = own.form()
		b.do("POST", f.url+action, values, "Origin", "null").want(http.StatusForbidden)
		b.do("POST", f.url+action, values, "Origin", f.url).want(http.StatusSeeOther)
	})
}

func TestPagesCannotBeFramedOrCached(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		b := f.browser()
		consent := b.signIn(b.get(a.authorizeURL()))
		for name, r := range map[string]*response{
			"sign-in": f.browser().get(a.authorizeURL()), "consent": consent, "error": b.get(f.url + "/authorize"),
			"device": b.get(f.url + "/device"), "sign-out": b.get(f.url + "/end_session"),
			"account": b.get(f.url + "/account"), "invitation": b.get(f.url + "/invite/none"),
		} {
			policy := r.header.Get("Content-Security-Policy")
			if !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "default-src 'none'") ||
				strings.Contains(policy, "unsafe") {
				t.Errorf("%s: policy %q", name, policy)
			}
			if r.header.Get("X-Frame-Options") != "DENY" || r.header.Get("Referrer-Policy") != "same-origin" ||
				r.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: headers %v", name, r.header)
			}
			if !strings.HasPrefix(r.header.Get("Content-Type"), "text/html") {
				t.Errorf("%s is %s", name, r.header.Get("Content-Type"))
			}
		}
	})
}

// TestWrongPasswordsAreThrottled also checks that known and unknown email addresses get the same
// responses.
func TestWrongPasswordsAreThrottled(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		try := func(email, password string) (statuses map[int]int, bodies map[string]bool) {
			b := f.browser()
			page := b.get(a.authorizeURL())
			statuses, bodies = map[int]int{}, map[string]bool{}
			for range 500 {
				r := b.submit(page, "email", email, "password", password)
				statuses[r.status]++
				bodies[problem(r)] = true
			}
			return statuses, bodies
		}
		known, knownBodies := try(ownerEmail, "wrong password")
		unknown, unknownBodies := try("nobody@example.com", "wrong password")
		if known[http.StatusBadRequest] != 10 || known[http.StatusTooManyRequests] != 490 {
			t.Errorf("known: %v", known)
		}
		if !maps.Equal(unknown, known) || !maps.Equal(unknownBodies, knownBodies) || len(knownBodies) != 2 {
			t.Errorf("unknown: %v, texts %v and %v", unknown, knownBodies, unknownBodies)
		}
		if n := f.checked.Load(); n != 20 {
			t.Errorf("%d passwords were checked", n)
		}
		// The correct password is refused as well, until some time has passed.
		b := f.browser()
		b.submit(b.get(a.authorizeURL()), "email", ownerEmail, "password", ownerPassword).want(http.StatusTooManyRequests)
		f.clock.add(time.Minute)
		b.submit(b.get(a.authorizeURL()), "email", ownerEmail, "password", ownerPassword).want(http.StatusSeeOther)
	})
}

func problem(r *response) string {
	_, after, _ := strings.Cut(r.body, `role="alert">`)
	text, _, _ := strings.Cut(after, "<")
	return text
}

// TestClientAuthentication checks both methods, that unknown clients and wrong secrets get the same
// response, and that credentials are form-decoded.
func TestClientAuthentication(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		const unknownID = "oac_01h00000000000000000000000"
		wrong := (&app{f: f, id: a.id, secret: "wrong"}).post("/oauth/token", "grant_type", "client_credentials")
		wrong.wantError(http.StatusUnauthorized, oauth.InvalidClient)
		unknown := (&app{f: f, id: unknownID, secret: "wrong"}).post("/oauth/token", "grant_type", "client_credentials")
		if unknown.status != wrong.status || unknown.body != wrong.body || wrong.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%d %s and %d %s", wrong.status, wrong.body, unknown.status, unknown.body)
		}
		b := f.browser()
		token := func(form url.Values, headers ...string) *response {
			form.Set("grant_type", "client_credentials")
			return b.do("POST", f.url+"/oauth/token", form, headers...)
		}
		token(url.Values{"client_id": {a.id}, "client_secret": {a.secret}}).want(http.StatusOK)
		token(url.Values{"client_id": {a.id}}).wantError(http.StatusUnauthorized, oauth.InvalidClient)
		escaped := strings.ReplaceAll(a.id, "_", "%5F") + ":" + "%" + hex(a.secret[0]) + a.secret[1:]
		basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(escaped))
		token(url.Values{}, "Authorization", basic).want(http.StatusOK)
		both := url.Values{"client_id": {a.id}, "client_secret": {a.secret}}
		token(both, "Authorization", basic).wantRefused(oauth.InvalidRequest)
		token(url.Values{"client_id": {unknownID}}, "Authorization", basic).wantRefused(oauth.InvalidRequest)
		inURL := f.url + "/oauth/token?client_secret=" + a.secret
		b.do("POST", inURL, url.Values{"client_id": {a.id}}).want(http.StatusBadRequest)
		b.do("GET", f.url+"/oauth/token", nil).want(http.StatusMethodNotAllowed)
		a.post("/oauth/token", "grant_type", "password", "username", "x").wantRefused("unsupported_grant_type")
		r := b.get(a.authorizeURL("response_type", "token")).want(http.StatusSeeOther)
		if !strings.Contains(r.header.Get("Location"), "unsupported_response_type") {
			t.Error("the implicit grant is not refused")
		}
		// A new secret replaces the old one.
		old := *a
		a.rotateSecret()
		old.post("/oauth/token", "grant_type", "client_credentials").wantError(http.StatusUnauthorized, oauth.InvalidClient)
		a.post("/oauth/token", "grant_type", "client_credentials").want(http.StatusOK)
	})
}

func hex(b byte) string {
	const digits = "0123456789ABCDEF"
	return string([]byte{digits[b>>4], digits[b&15]})
}

// TestClientAdmitsOnlyItsUsers checks allowed_user_ids and is_public, at authorization and at refresh.
func TestClientAdmitsOnlyItsUsers(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(strings.Replace(confidential, "{", `{"is_public": false,`, 1))
		f.newUser("guest@example.com", "guest password")
		b := f.browser()
		got := b.completeAs(b.get(a.authorizeURL()), "guest@example.com", "guest password")
		if got.Get("error") != oauth.AccessDenied {
			t.Fatalf("a user outside the organization got %v", got)
		}
		tokens := a.tokens()
		patch := oidc.ClientPatch{}
		must(t, json.Unmarshal([]byte(`{"allowed_user_ids": ["usr_nobody"]}`), &patch))
		_, err := f.clients.Store.Update(f.ctx, auth.From(f.ctx), a.id, paging.IfMatch{}, patch)
		must(t, err)
		a.refresh(tokens["refresh_token"].(string)).wantRefused(oauth.InvalidGrant)
		b = f.browser()
		if got := b.complete(b.get(a.authorizeURL())); got.Get("error") != oauth.AccessDenied {
			t.Fatalf("a user who is not allowed got %v", got)
		}
	})
}
