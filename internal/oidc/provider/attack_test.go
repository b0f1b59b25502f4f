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
	"github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/auth"
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
	paging "steward/internal/page"
)

func TestWrongVerifier(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		redeem := func(code, with string) *reply {
			return a.post("/oauth/token", "grant_type", "authorization_code", "code", code, "redirect_uri", callback, "code_verifier", with)
		}
		code := a.code()
		redeem(code, strings.Repeat("x", 43)).fault(http.StatusBadRequest, invalidGrant)
		redeem(code, verifier).fault(http.StatusBadRequest, invalidGrant) // it was used up
		redeem(a.code(), "").fault(http.StatusBadRequest, invalidGrant)
		// Without a challenge a verifier is a downgrade.
		redeem(a.code("code_challenge", "", "code_challenge_method", ""), verifier).fault(http.StatusBadRequest, invalidGrant)
		redeem(a.code("code_challenge", "", "code_challenge_method", ""), "").want(http.StatusOK)
	})
}

func TestMissingPKCE(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		refused := func(a *app, pairs ...string) {
			t.Helper()
			r := h.browser().get(a.authorizeURL(pairs...)).want(http.StatusSeeOther)
			if !strings.Contains(r.header.Get("Location"), "error=invalid_request") {
				t.Fatalf("got %s", r.header.Get("Location"))
			}
		}
		a := h.newApp(public)
		refused(a, "code_challenge", "", "code_challenge_method", "")
		refused(a, "code_challenge_method", "plain")
		refused(a, "code_challenge_method", "")
		refused(a, "code_challenge", "too-short")
		a.tokens()
		h.provider.RequirePKCE = true
		refused(h.newApp(confidential), "code_challenge", "", "code_challenge_method", "")
	})
}

// A request whose redirect address is not exactly the client's own is shown on a page: nothing is redirected.
func TestRedirectURIs(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(`{"redirect_uris": ["https://rp.example.com/callback", "http://127.0.0.1/cb", "http://localhost/cb"]}`)
		for _, uri := range []string{
			"", "https://evil.example.com/callback", "https://rp.example.com/callback/", "https://rp.example.com/callback/more",
			"https://rp.example.com/callback#frag",
			"https://rp.example.com/callback#", "https://rp.example.com/callback?x=1", "https://rp.example.com.evil.com/callback",
			"https://rp.example.com/CALLBACK",
			"https://rp.example.com@evil.com/callback", "HTTPS://rp.example.com/callback", "http://rp.example.com/callback",
			"//rp.example.com/callback",
			"https://rp.example.com:443/callback", "https://rp.example.com/x/../callback", "http://127.0.0.1:80@evil.com/cb",
			"http://127.0.0.1.evil.com/cb",
			"http://127.0.0.2/cb", "http://localhost:1234/cb", "http://127.0.0.1:99999/cb", "http://127.0.0.1:80/cb/x",
			"javascript:alert(1)", "data:text/html,x",
		} {
			r := h.browser().get(a.authorizeURL("redirect_uri", uri))
			if r.status != http.StatusBadRequest || r.header.Get("Location") != "" || !strings.Contains(r.body, "<h1>") {
				t.Errorf("%q got %d, Location %q", uri, r.status, r.header.Get("Location"))
			}
		}
		for _, uri := range []string{"https://rp.example.com/callback", "http://127.0.0.1:43210/cb", "http://127.0.0.1/cb"} {
			h.browser().get(a.authorizeURL("redirect_uri", uri)).want(http.StatusOK)
		}
		twice := a.params()
		twice.Add("redirect_uri", "https://evil.example.com/")
		h.browser().get(h.url + "/authorize?" + twice.Encode()).want(http.StatusBadRequest)
		code := a.code("redirect_uri", "http://127.0.0.1:43210/cb")
		a.redeem(code).fault(http.StatusBadRequest, invalidGrant)                  // its redirect_uri was another one
		h.browser().get(h.newApp(`{}`).authorizeURL()).want(http.StatusBadRequest) // it registered none
		unknown := &app{h: h, id: "oac_01h00000000000000000000000"}
		h.browser().get(unknown.authorizeURL()).want(http.StatusBadRequest)
	})
}

// No token is taken because of what its own header says: `none`, an algorithm of another key, a public key as a secret, a missing type.
func TestForgedAlgorithms(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		tokens := a.tokens()
		parts := strings.Split(tokens["access_token"].(string), ".")
		encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
		a.dead(encode(`{"alg":"none","typ":"at+jwt"}`)+"."+parts[1]+".", "alg none")
		a.dead(encode(`{"alg":"None","typ":"at+jwt"}`)+"."+parts[1]+"."+parts[2], "alg None")
		a.dead(parts[0]+"."+parts[1]+"."+parts[2][:len(parts[2])-4]+"AAAA", "changed signature")
		a.dead(tokens["id_token"], "an ID token")

		set, err := h.keys.Set(t.Context())
		must(t, err)
		var claims accessClaims
		payload, err := base64.RawURLEncoding.DecodeString(parts[1])
		must(t, err)
		must(t, json.Unmarshal(payload, &claims))
		forge := func(alg jose.SignatureAlgorithm, kid string, key any, typ string) string {
			options := (&jose.SignerOptions{}).WithType(jose.ContentType(typ)).WithHeader("kid", kid)
			s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
			must(t, err)
			text, err := jwt.Signed(s).Claims(claims).Serialize()
			must(t, err)
			return text
		}
		ecKid, ecKey := set.Signing(keys.ForAccessTokens)
		rsaKid, rsaKey := set.Signing(keys.ForIDTokens)
		public, err := json.Marshal(set.JWKS().Keys[0])
		must(t, err)
		h.userinfo(forge(jose.ES256, ecKid, ecKey, "at+jwt")).want(http.StatusOK) // so it is the change alone that is refused below
		a.dead(forge(jose.HS256, ecKid, public, "at+jwt"), "HS256 with a public key")
		a.dead(forge(jose.RS256, rsaKid, rsaKey, "at+jwt"), "RS256 where ES256 is due")
		a.dead(forge(jose.ES256, ecKid, ecKey, "JWT"), "another typ")
		a.dead(forge(jose.ES256, "", ecKey, "at+jwt"), "no kid")
		claims.Issuer = "https://evil.example.com"
		a.dead(forge(jose.ES256, ecKid, ecKey, "at+jwt"), "another issuer")
	})
}

// Deleting a client ends everything that it was given, at once.
func TestTokenOfADeletedClient(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a, code := h.newApp(confidential), ""
		tokens := a.tokens()
		code = a.code()
		machine := a.post("/oauth/token", "grant_type", "client_credentials").want(http.StatusOK).text("access_token")
		must(t, h.clients.Store.Delete(h.ctx, h.orgID, a.id, paging.IfMatch{}))
		a.dead(tokens["access_token"], "client deleted")
		a.dead(machine, "client deleted")
		a.refresh(tokens["refresh_token"].(string)).fault(http.StatusUnauthorized, invalidClient)
		a.redeem(code).fault(http.StatusUnauthorized, invalidClient)
		h.browser().get(a.authorizeURL()).want(http.StatusBadRequest)
	})
}

// Revoking a user ends what the client holds of that user, and nothing of another one.
func TestTokenOfARevokedUser(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		h.newUser("other@example.com", "another password")
		b := h.browser()
		other := a.redeem(b.throughAs(b.get(a.authorizeURL()), "other@example.com", "another password").Get("code")).want(http.StatusOK).json()
		tokens, code := a.tokens(), a.code()
		must(t, h.clients.Store.RevokeUser(h.ctx, h.orgID, a.id, h.userID))
		a.dead(tokens["access_token"], "user revoked")
		a.refresh(tokens["refresh_token"].(string)).fault(http.StatusBadRequest, invalidGrant)
		a.redeem(code).fault(http.StatusBadRequest, invalidGrant)
		h.userinfo(other["access_token"].(string)).want(http.StatusOK)
		// A new consent does not bring the old tokens back.
		h.userinfo(a.tokens()["access_token"].(string)).want(http.StatusOK)
		a.dead(tokens["access_token"], "user revoked, then agreed again")
		must(t, h.clients.Store.RevokeAll(h.ctx, h.orgID, a.id))
		a.dead(other["access_token"], "all users revoked")
	})
}

// A token lives to its end although its key was rotated away. A key that is gone proves nothing: not even a token that it signs later, by
// the hand of somebody who kept its private half.
func TestTokenOfARotatedAndOfAnExpiredKey(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(strings.Replace(confidential, "{", `{"access_token_lifetime_seconds": 86400,`, 1))
		before := a.tokens()["access_token"].(string)
		kept, err := h.keys.Set(t.Context())
		must(t, err)
		h.clock.add(2 * keys.Settle)
		rotated, err := h.keys.Rotate(h.ctx)
		must(t, err)
		if !rotated {
			t.Fatal("not rotated")
		}
		after := a.tokens()["access_token"].(string)
		if header(t, before)["kid"] == header(t, after)["kid"] {
			t.Error("the new token has the old kid")
		}
		h.clock.add(24*time.Hour - 3*keys.Settle)
		must(t, h.keys.Tend(h.ctx))
		h.userinfo(before).want(http.StatusOK) // its last minute

		h.clock.add(keys.Kept - 24*time.Hour + 4*keys.Settle)
		a.dead(before, "its time is up")
		claims := h.provider.newAccess(&client{Client: oidc.Client{ID: a.id, OrgID: h.orgID}, Epoch: 1}, a.id, nil, "")
		kid, signer := kept.Signing(keys.ForAccessTokens)
		key := jose.SigningKey{Algorithm: accessAlg, Key: jose.JSONWebKey{KeyID: kid, Key: signer}}
		s, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType(accessType))
		must(t, err)
		late, err := jwt.Signed(s).Claims(claims).Serialize()
		must(t, err)
		if !a.active(late) {
			t.Fatal("the forged token is not as good as a real one, while its key is published")
		}
		must(t, h.keys.Tend(h.ctx))
		a.dead(late, "its key is gone")
	})
}

func header(t *testing.T, token string) (out map[string]any) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
	must(t, err)
	must(t, json.Unmarshal(raw, &out))
	return out
}

// A consent that another site sends in the user's browser does nothing, nor does one with another browser's token.
func TestCSRFOnConsent(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		b := h.browser()
		page := b.follow(b.submit(b.get(a.authorizeURL()), "email", ownerEmail, "password", ownerPassword)).want(http.StatusOK)
		_, action, values := page.form()
		send := func(change func(url.Values), headers ...string) {
			t.Helper()
			forged := url.Values{}
			for name, v := range values {
				forged[name] = v
			}
			change(forged)
			if r := b.do("POST", h.url+action, forged, headers...); r.status != http.StatusForbidden || r.header.Get("Location") != "" {
				t.Errorf("got %d, Location %q", r.status, r.header.Get("Location"))
			}
		}
		send(func(v url.Values) { v.Del("csrf") })
		send(func(v url.Values) { v.Set("csrf", "x") })
		other := h.browser()
		_, _, others := other.get(a.authorizeURL()).form()
		send(func(v url.Values) { v.Set("csrf", others.Get("csrf")) })
		send(func(url.Values) {}, "Sec-Fetch-Site", "cross-site")
		send(func(url.Values) {}, "Origin", "https://evil.example.com")
		if given, err := h.clients.Store.Consent(t.Context(), a.id, h.userID); err != nil || given != nil {
			t.Fatalf("a consent was written: %v %v", given, err)
		}
		// A page that was made for one user is not the consent of another one who has signed in since: they are asked themselves.
		another := h.newUser("other@example.com", "another password")
		again := b.get(a.authorizeURL("prompt", "login"))
		b.follow(b.submit(again, "email", "other@example.com", "password", "another password")).want(http.StatusOK)
		b.do("POST", h.url+action, values).want(http.StatusOK)
		for _, userID := range []string{h.userID, another} {
			if given, err := h.clients.Store.Consent(t.Context(), a.id, userID); err != nil || given != nil {
				t.Fatalf("a consent was written: %v %v", given, err)
			}
		}
		// A browser that is silent about sites calls the origin of our own pages null.
		own := b.follow(b.get(a.authorizeURL())).want(http.StatusOK)
		_, action, values = own.form()
		b.do("POST", h.url+action, values, "Origin", "null").want(http.StatusSeeOther)
	})
}

func TestClickjackingHeaders(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		b := h.browser()
		consent := b.follow(b.submit(b.get(a.authorizeURL()), "email", ownerEmail, "password", ownerPassword))
		for name, r := range map[string]*reply{
			"sign-in": h.browser().get(a.authorizeURL()), "consent": consent, "fault": b.get(h.url + "/authorize"),
			"device":   b.get(h.url + "/device"),
			"sign-out": b.get(h.url + "/end_session"), "account": b.get(h.url + "/account"), "invitation": b.get(h.url + "/invite/none"),
		} {
			policy := r.header.Get("Content-Security-Policy")
			if !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "default-src 'none'") ||
				strings.Contains(policy, "unsafe") {
				t.Errorf("%s: policy %q", name, policy)
			}
			if r.header.Get("X-Frame-Options") != "DENY" || r.header.Get("Referrer-Policy") != "no-referrer" ||
				r.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: headers %v", name, r.header)
			}
			if !strings.HasPrefix(r.header.Get("Content-Type"), "text/html") {
				t.Errorf("%s is %s", name, r.header.Get("Content-Type"))
			}
		}
	})
}

// A thousand wrong passwords are cheap and get nowhere, and neither the answers nor their order tell whether the address is known.
func TestThousandWrongPasswords(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		check, count := h.provider.Users.CheckPassword, 0
		h.provider.Users.CheckPassword = func(hash, password string) bool {
			count++
			return check(hash, password)
		}
		try := func(email, password string) (statuses map[int]int, bodies map[string]bool) {
			b := h.browser()
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
		if count != 20 {
			t.Errorf("%d passwords were hashed", count)
		}
		// The right password is not taken either, until some time has passed.
		b := h.browser()
		b.submit(b.get(a.authorizeURL()), "email", ownerEmail, "password", ownerPassword).want(http.StatusTooManyRequests)
		h.clock.add(time.Minute)
		b.submit(b.get(a.authorizeURL()), "email", ownerEmail, "password", ownerPassword).want(http.StatusSeeOther)
	})
}

func problem(r *reply) string {
	_, after, _ := strings.Cut(r.body, `role="alert">`)
	text, _, _ := strings.Cut(after, "<")
	return text
}

// Unknown clients and wrong secrets look the same; credentials are form-decoded, and come in one way only.
func TestClientAuthentication(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		wrong := (&app{h: h, id: a.id, secret: "wrong"}).post("/oauth/token", "grant_type", "client_credentials")
		wrong.fault(http.StatusUnauthorized, invalidClient)
		unknown := (&app{h: h, id: "oac_01h00000000000000000000000", secret: "wrong"}).post("/oauth/token", "grant_type", "client_credentials")
		if unknown.status != wrong.status || unknown.body != wrong.body || wrong.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%d %s and %d %s", wrong.status, wrong.body, unknown.status, unknown.body)
		}
		b := h.browser()
		token := func(form url.Values, headers ...string) *reply {
			form.Set("grant_type", "client_credentials")
			return b.do("POST", h.url+"/oauth/token", form, headers...)
		}
		token(url.Values{"client_id": {a.id}, "client_secret": {a.secret}}).want(http.StatusOK)
		token(url.Values{"client_id": {a.id}}).fault(http.StatusUnauthorized, invalidClient)
		escaped := strings.ReplaceAll(a.id, "_", "%5F") + ":" + "%" + hex(a.secret[0]) + a.secret[1:]
		basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(escaped))
		token(url.Values{}, "Authorization", basic).want(http.StatusOK)
		token(url.Values{"client_id": {a.id}, "client_secret": {a.secret}}, "Authorization", basic).fault(http.StatusBadRequest, invalidRequest)
		token(url.Values{"client_id": {"oac_01h00000000000000000000000"}}, "Authorization", basic).fault(http.StatusBadRequest, invalidRequest)
		b.do("POST", h.url+"/oauth/token?client_secret="+a.secret, url.Values{"client_id": {a.id}}).want(http.StatusBadRequest)
		b.do("GET", h.url+"/oauth/token", nil).want(http.StatusMethodNotAllowed)
		a.post("/oauth/token", "grant_type", "password", "username", "x").fault(http.StatusBadRequest, "unsupported_grant_type")
		r := b.get(a.authorizeURL("response_type", "token")).want(http.StatusSeeOther)
		if !strings.Contains(r.header.Get("Location"), "unsupported_response_type") {
			t.Error("the implicit grant is not refused")
		}
		// A rotated secret is the only one.
		rotated, err := h.clients.Store.Rotate(h.ctx, h.orgID, a.id)
		must(t, err)
		a.post("/oauth/token", "grant_type", "client_credentials").fault(http.StatusUnauthorized, invalidClient)
		a.secret = rotated
		a.post("/oauth/token", "grant_type", "client_credentials").want(http.StatusOK)
	})
}

func hex(b byte) string {
	const digits = "0123456789ABCDEF"
	return string([]byte{digits[b>>4], digits[b&15]})
}

// allowed_user_ids and is_public are asked at authorization and at refresh.
func TestWhoMayUseAClient(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(strings.Replace(confidential, "{", `{"is_public": false,`, 1))
		h.newUser("guest@example.com", "guest password")
		b := h.browser()
		if got := b.throughAs(b.get(a.authorizeURL()), "guest@example.com", "guest password"); got.Get("error") != accessDenied {
			t.Fatalf("somebody outside of the organization got %v", got)
		}
		tokens := a.tokens()
		patch := oidc.ClientPatch{}
		must(t, json.Unmarshal([]byte(`{"allowed_user_ids": ["usr_nobody"]}`), &patch))
		_, err := h.clients.Store.Update(h.ctx, auth.From(h.ctx), a.id, paging.IfMatch{}, patch)
		must(t, err)
		a.refresh(tokens["refresh_token"].(string)).fault(http.StatusBadRequest, invalidGrant)
		b = h.browser()
		if got := b.through(b.get(a.authorizeURL())); got.Get("error") != accessDenied {
			t.Fatalf("somebody who is not allowed got %v", got)
		}
	})
}
