package provider

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/account"
	"steward/internal/auth"
)

// A pushed request is used once, by its own client, and soon; what is in the address beside it does not count.
func TestPushedRequests(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a, other := h.newApp(confidential), h.newApp(confidential)
		push := func() string {
			form := a.params()
			var pairs []string
			for name := range form {
				pairs = append(pairs, name, form.Get(name))
			}
			return a.post("/par", pairs...).want(http.StatusCreated).text("request_uri")
		}
		at := func(a *app, uri string) string {
			v := url.Values{"client_id": {a.id}, "request_uri": {uri}, "redirect_uri": {"https://evil.example.com"}}
			return h.url + "/authorize?" + v.Encode()
		}
		uri := push()
		b := h.browser()
		tokens := a.redeem(b.through(b.get(at(a, uri))).Get("code")).want(http.StatusOK)
		if tokens.text("id_token") == "" {
			t.Error("no ID token")
		}
		b.get(at(a, uri)).want(http.StatusBadRequest)
		b.get(at(other, push())).want(http.StatusBadRequest)
		late := push()
		h.clock.add(pushedLife)
		b.get(at(a, late)).want(http.StatusBadRequest)
		a.post("/par", "response_type", "code", "redirect_uri", "https://evil.example.com").fault(http.StatusBadRequest, invalidRequest)
		(&app{h: h, id: a.id, secret: "wrong"}).post("/par").fault(http.StatusUnauthorized, invalidClient)
		b.get(h.url + "/authorize?" + a.params("request_uri", "https://evil.example.com/request").Encode()).want(http.StatusSeeOther)
	})
}

// A device gets tokens once its user has typed the code and agreed.
func TestDeviceFlow(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(public)
		ask := func() *reply { return a.post("/device_authorization", "scope", "openid email").want(http.StatusOK) }
		poll := func(d *reply) *reply {
			return a.post("/oauth/token", "grant_type", "urn:ietf:params:oauth:grant-type:device_code", "device_code", d.text("device_code"))
		}
		d := ask()
		poll(d).fault(http.StatusBadRequest, "authorization_pending")
		poll(d).fault(http.StatusBadRequest, "slow_down")
		h.clock.add(11 * time.Second)
		poll(d).fault(http.StatusBadRequest, "authorization_pending")

		b := h.browser()
		typed := strings.ToLower(strings.ReplaceAll(d.text("user_code"), "-", " "))
		page := b.submit(b.get(h.url+"/device").want(http.StatusOK), "user_code", typed) // the sign-in page
		page = b.follow(b.submit(page, "email", ownerEmail, "password", ownerPassword)).want(http.StatusOK)
		if !strings.Contains(page.body, "Test app") || !strings.Contains(page.body, d.text("user_code")) {
			t.Fatalf("the page does not say what is connected: %s", page.body)
		}
		b.submit(page).want(http.StatusOK)
		h.clock.add(11 * time.Second)
		tokens := poll(d).want(http.StatusOK)
		h.userinfo(tokens.text("access_token")).want(http.StatusOK)
		a.refresh(tokens.text("refresh_token")).want(http.StatusOK)
		poll(d).fault(http.StatusBadRequest, invalidGrant)
		a.dead(tokens.text("access_token"), "its device code came again")

		denied := ask()
		b.submit(b.get(denied.text("verification_uri_complete")), "action", "deny").want(http.StatusOK)
		poll(denied).fault(http.StatusBadRequest, accessDenied)
		expired := ask()
		h.clock.add(deviceLife)
		poll(expired).fault(http.StatusBadRequest, "expired_token")
		b.get(expired.text("verification_uri_complete")).want(http.StatusBadRequest)
		for range 40 {
			if b.get(h.url+"/device?user_code=BBBBBBBB").status == http.StatusTooManyRequests {
				return
			}
		}
		t.Error("user codes can be guessed without end")
	})
}

// proofMaker has a client's own key for DPoP.
type proofMaker struct {
	t   *testing.T
	h   *house
	key *ecdsa.PrivateKey
}

func (h *house) proofMaker(t *testing.T) *proofMaker {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return &proofMaker{t, h, key}
}

func (m *proofMaker) proof(jti, method, uri, token string, at time.Time) string {
	options := (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: m.key}, options)
	must(m.t, err)
	claims := map[string]any{"jti": jti, "htm": method, "htu": uri, "iat": at.Unix()}
	if token != "" {
		claims["ath"] = tokenHash(token)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	must(m.t, err)
	return text
}

// A token that is bound to a key is worth nothing without it.
func TestDPoP(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(public)
		mine, theirs := h.proofMaker(t), h.proofMaker(t)
		tokenURL, infoURL := h.url+"/oauth/token", h.url+"/userinfo"
		b := h.browser()
		post := func(proof string, pairs ...string) *reply { return a.postAs(b, "/oauth/token", pairs, "DPoP", proof) }
		code := func() []string {
			return []string{"grant_type", "authorization_code", "code", a.code(), "redirect_uri", callback, "code_verifier", verifier}
		}
		first := mine.proof("1", "POST", tokenURL, "", h.clock.Now())
		tokens := post(first, code()...).want(http.StatusOK)
		if tokens.text("token_type") != "DPoP" {
			t.Fatalf("got %s", tokens.body)
		}
		access := tokens.text("access_token")
		post(first, code()...).fault(http.StatusBadRequest, invalidProof) // a replay
		for name, proof := range map[string]string{
			"old":            mine.proof("2", "POST", tokenURL, "", h.clock.Now().Add(-2*time.Minute)),
			"from tomorrow":  mine.proof("3", "POST", tokenURL, "", h.clock.Now().Add(time.Hour)),
			"another method": mine.proof("4", "GET", tokenURL, "", h.clock.Now()),
			"another place":  mine.proof("5", "POST", "https://evil.example.com/oauth/token", "", h.clock.Now()),
			"no jti":         mine.proof("", "POST", tokenURL, "", h.clock.Now()),
			"no JWT":         "x.y.z",
		} {
			if r := post(proof, code()...); r.status != http.StatusBadRequest || r.text("error") != invalidProof {
				t.Errorf("a proof that is %s got %d %s", name, r.status, r.body)
			}
		}

		info := func(scheme string, headers ...string) *reply {
			return b.do("GET", infoURL, nil, append(headers, "Authorization", scheme+" "+access)...)
		}
		info("DPoP", "DPoP", mine.proof("6", "GET", infoURL, access, h.clock.Now())).want(http.StatusOK)
		info("Bearer").fault(http.StatusUnauthorized, invalidToken)
		info("DPoP").want(http.StatusUnauthorized)
		info("DPoP", "DPoP", theirs.proof("7", "GET", infoURL, access, h.clock.Now())).fault(http.StatusUnauthorized, invalidProof)
		info("DPoP", "DPoP", mine.proof("8", "GET", infoURL, "another token", h.clock.Now())).fault(http.StatusUnauthorized, invalidProof)
		if _, err := h.provider.Caller(t.Context(), access); err == nil {
			t.Error("the management API takes it as a Bearer token")
		}

		refresh := []string{"grant_type", "refresh_token", "refresh_token", tokens.text("refresh_token")}
		a.post("/oauth/token", refresh...).fault(http.StatusBadRequest, invalidProof)
		post(theirs.proof("9", "POST", tokenURL, "", h.clock.Now()), refresh...).fault(http.StatusBadRequest, invalidProof)
		post(mine.proof("10", "POST", tokenURL, "", h.clock.Now()), refresh...).want(http.StatusOK)
	})
}

// Signing out sends the user nowhere but to an address of the client that asks, and without its ID token only after a question.
func TestOpenRedirectOnLogout(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		b := h.browser()
		tokens := a.redeem(b.through(b.get(a.authorizeURL("scope", "openid"))).Get("code")).want(http.StatusOK).json()
		hint := tokens["id_token"].(string)
		end := func(pairs ...string) string {
			v := url.Values{}
			for i := 0; i < len(pairs); i += 2 {
				v.Set(pairs[i], pairs[i+1])
			}
			return h.url + "/end_session?" + v.Encode()
		}
		for _, uri := range []string{
			"https://evil.example.com/", "https://rp.example.com/bye/", "https://rp.example.com/bye#x", "https://rp.example.com/bye?x",
			"//rp.example.com/bye",
		} {
			r := b.get(end("id_token_hint", hint, "post_logout_redirect_uri", uri)).want(http.StatusBadRequest)
			if r.header.Get("Location") != "" {
				t.Errorf("%s redirects", uri)
			}
		}
		b.get(end("post_logout_redirect_uri", "https://rp.example.com/bye")).want(http.StatusBadRequest) // whose is it?
		b.get(end("id_token_hint", hint+"x")).want(http.StatusBadRequest)
		b.get(end("id_token_hint", hint, "client_id", h.newApp(confidential).id)).want(http.StatusBadRequest)

		page := b.get(end("client_id", a.id, "post_logout_redirect_uri", "https://rp.example.com/bye", "state", "s1")).want(http.StatusOK)
		b.submit(page, "action", "deny").want(http.StatusOK)
		b.get(a.authorizeURL("scope", "openid", "prompt", "none")).want(http.StatusSeeOther)
		r := b.submit(page).want(http.StatusSeeOther)
		if r.header.Get("Location") != "https://rp.example.com/bye?state=s1" {
			t.Fatalf("got %s", r.header.Get("Location"))
		}
		if !strings.Contains(b.get(a.authorizeURL("prompt", "none")).header.Get("Location"), "login_required") {
			t.Error("the user is still signed in")
		}
		// Without offline access the refresh token ended with the session.
		a.refresh(tokens["refresh_token"].(string)).fault(http.StatusBadRequest, invalidGrant)

		b.through(b.get(a.authorizeURL()))
		r = b.get(end("id_token_hint", hint, "post_logout_redirect_uri", "https://rp.example.com/bye")).want(http.StatusSeeOther)
		if r.header.Get("Location") != "https://rp.example.com/bye" {
			t.Fatalf("got %s", r.header.Get("Location"))
		}
	})
}

// Revoking a refresh token ends what its grant gave; revoking an access token ends that one.
func TestRevocation(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		tokens := a.tokens()
		more := a.refresh(tokens["refresh_token"].(string)).want(http.StatusOK)
		a.post("/revoke", "token", tokens["access_token"].(string), "token_type_hint", "refresh_token").want(http.StatusOK)
		a.dead(tokens["access_token"], "revoked")
		h.userinfo(more.text("access_token")).want(http.StatusOK)
		a.post("/revoke", "token", more.text("refresh_token")).want(http.StatusOK)
		a.dead(more.text("access_token"), "its refresh token was revoked")
		a.refresh(more.text("refresh_token")).fault(http.StatusBadRequest, invalidGrant)
		a.post("/revoke", "token", "never seen").want(http.StatusOK)
		a.post("/revoke").fault(http.StatusBadRequest, invalidRequest)
		(&app{h: h, id: a.id, secret: "wrong"}).post("/revoke", "token", "x").fault(http.StatusUnauthorized, invalidClient)
		p := h.newApp(public)
		p.post("/introspect", "token", "x").fault(http.StatusUnauthorized, invalidClient)
	})
}

// With more revoked than is kept in memory, the answers are the same.
func TestManyRevocations(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		good, bad := a.tokens()["access_token"].(string), a.tokens()["access_token"].(string)
		h.revokeMany(maxRevoked + 10)
		a.post("/revoke", "token", bad).want(http.StatusOK)
		a.dead(bad, "revoked among many")
		h.userinfo(good).want(http.StatusOK)
		h.clock.add(48 * time.Hour)
		must(t, h.provider.Purge(t.Context()))
		var left int
		must(t, h.db.Read(t.Context()).Row(`SELECT count(*) FROM oidc_revoked`).Scan(&left))
		if left != 0 {
			t.Errorf("%d rows are left", left)
		}
	})
}

// Scripts of other origins may use what they need, and nothing that rests on cookies.
func TestCORS(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		b := h.browser()
		for _, path := range []string{
			"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/jwks", "/oauth/token", "/userinfo", "/revoke",
		} {
			r := b.do("OPTIONS", h.url+path, nil, "Origin", "https://spa.example.com", "Access-Control-Request-Method", "POST")
			r.want(http.StatusNoContent)
			if r.header.Get("Access-Control-Allow-Origin") != "*" || r.header.Get("Access-Control-Allow-Credentials") != "" ||
				!strings.Contains(r.header.Get("Access-Control-Allow-Headers"), "DPoP") {
				t.Errorf("%s: %v", path, r.header)
			}
		}
		if r := b.get(h.url + "/authorize"); r.header.Get("Access-Control-Allow-Origin") != "" {
			t.Error("a page is open to scripts")
		}
		set := b.get(h.url + "/jwks").want(http.StatusOK)
		if set.header.Get("Cache-Control") != "public, max-age=45" || strings.Contains(set.body, `"d":`) {
			t.Errorf("%v %s", set.header, set.body)
		}
		if r := b.get(h.url + "/userinfo").want(http.StatusUnauthorized); r.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("got %v", r.header)
		}
	})
}

// An invited member sets a first password, is in, changes it, and sees and ends sessions.
func TestInvitationAndAccount(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		_, token, err := h.accounts.Invite(h.ctx, h.orgID, h.userID, member("new@example.com"))
		must(t, err)
		b := h.browser()
		page := b.get(h.url + "/invite/" + token).want(http.StatusOK)
		b.submit(page, "password", "short").want(http.StatusBadRequest)
		mine := b.follow(b.submit(page, "password", "a first password")).want(http.StatusOK)
		if !strings.Contains(mine.body, "new@example.com") || !strings.Contains(mine.body, "this one") {
			t.Fatalf("not in: %s", mine.body)
		}
		b.get(h.url + "/invite/" + token).want(http.StatusNotFound)
		b.submit(page, "password", "another password").want(http.StatusNotFound)

		elsewhere := h.browser()
		there := elsewhere.follow(elsewhere.submit(elsewhere.get(h.url+"/account"), "email", "NEW@example.com", "password", "a first password"))
		if !strings.Contains(there.want(http.StatusOK).body, "Your account") {
			t.Fatal("the first password does not work")
		}
		b.submit(mine, "password", "wrong", "new_password", "a second password").want(http.StatusBadRequest)
		b.submit(mine, "password", "a first password", "new_password", "short").want(http.StatusBadRequest)
		b.submit(mine, "password", "a first password", "new_password", "a second password").want(http.StatusOK)
		if strings.Contains(elsewhere.get(h.url+"/account").body, "Your account") {
			t.Error("the other session lives on after the password was changed")
		}
		elsewhere.submit(elsewhere.get(h.url+"/account"), "email", "new@example.com", "password", "a first password").want(http.StatusBadRequest)
		elsewhere.submit(elsewhere.get(h.url+"/account"), "email", "new@example.com", "password", "a second password").want(http.StatusSeeOther)

		list := b.get(h.url + "/account").want(http.StatusOK)
		forms := formTag.FindAllString(list.body, -1)
		if len(forms) != 3 {
			t.Fatalf("%d forms, want one for the password and one for each of two sessions", len(forms))
		}
		for _, text := range forms[1:] {
			one := &reply{t: t, status: 200, body: text}
			if _, _, values := one.form(); !strings.Contains(list.body, `this one</span><br>`) || values.Get("session") == "" {
				t.Fatalf("got %v", values)
			}
		}
		// Somebody who has a password cannot be given another one by an invitation.
		_, token, err = h.accounts.Invite(h.ctx, h.otherOrg(), h.userID, member(ownerEmail))
		must(t, err)
		if r := h.browser().get(h.url + "/invite/" + token).want(http.StatusOK); strings.Contains(r.body, "<form") {
			t.Error("an invitation offers to set the password of an account that has one")
		}
	})
}

func member(email string) account.NewMember {
	return account.NewMember{Email: email, Role: auth.Member}
}

// A session ends by itself.
func TestSessionsExpire(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		b := h.browser()
		b.through(b.get(a.authorizeURL()))
		signedIn := func() bool {
			return !strings.Contains(b.get(a.authorizeURL("prompt", "none")).header.Get("Location"), "login_required")
		}
		for range 4 {
			h.clock.add(idleLife - time.Hour)
			if !signedIn() {
				t.Fatal("a session in use ended early")
			}
		}
		h.clock.add(idleLife - time.Hour) // beyond sessionLife in all
		if signedIn() {
			t.Error("a session lives for ever")
		}
	})
}
