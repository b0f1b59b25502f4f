package provider

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/authorize"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/session"
)

// TestPushedRequestIsUsedOnceByItsClient also checks that other parameters in the URL are ignored.
func TestPushedRequestIsUsedOnceByItsClient(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a, other := f.newApp(confidential), f.newApp(confidential)
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
			return f.url + "/authorize?" + v.Encode()
		}
		uri := push()
		b := f.browser()
		tokens := a.redeem(b.complete(b.get(at(a, uri))).Get("code")).want(http.StatusOK)
		if tokens.text("id_token") == "" {
			t.Error("no ID token")
		}
		b.get(at(a, uri)).want(http.StatusBadRequest)
		b.get(at(other, push())).want(http.StatusBadRequest)
		late := push()
		f.clock.add(authorize.PushedLifetime)
		b.get(at(a, late)).want(http.StatusBadRequest)
		a.post("/par", "response_type", "code", "redirect_uri", "https://evil.example.com").wantRefused(oauth.InvalidRequest)
		(&app{f: f, id: a.id, secret: "wrong"}).post("/par").wantError(http.StatusUnauthorized, oauth.InvalidClient)
		b.get(a.authorizeURL("request_uri", "https://evil.example.com/request")).want(http.StatusSeeOther)
	})
}

// TestDeviceFlow covers pending, approved, denied and expired device codes, polling too often, and
// guessing.
func TestDeviceFlow(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(public)
		request := func() *response { return a.post("/device_authorization", "scope", "openid email").want(http.StatusOK) }
		poll := func(d *response) *response {
			return a.post("/oauth/token", "grant_type", oidc.DeviceCode, "device_code", d.text("device_code"))
		}
		d := request()
		poll(d).wantRefused("authorization_pending")
		poll(d).wantRefused("slow_down")
		f.clock.add(11 * time.Second)
		poll(d).wantRefused("authorization_pending")

		b := f.browser()
		typed := strings.ToLower(strings.ReplaceAll(d.text("user_code"), "-", " "))
		page := b.submit(b.get(f.url+"/device").want(http.StatusOK), "user_code", typed) // the sign-in page
		page = b.signIn(page).want(http.StatusOK)
		if !strings.Contains(page.body, "Test app") || !strings.Contains(page.body, d.text("user_code")) {
			t.Fatalf("the page does not name the application and the code: %s", page.body)
		}
		b.submit(page).want(http.StatusOK)
		f.clock.add(11 * time.Second)
		tokens := poll(d).want(http.StatusOK)
		f.userinfo(tokens.text("access_token")).want(http.StatusOK)
		a.refresh(tokens.text("refresh_token")).want(http.StatusOK)
		poll(d).wantRefused(oauth.InvalidGrant)
		a.wantInvalid(tokens.text("access_token"), "device code reused")

		denied := request()
		b.submit(b.get(denied.text("verification_uri_complete")), "action", "deny").want(http.StatusOK)
		poll(denied).wantRefused(oauth.AccessDenied)
		expired := request()
		f.clock.add(grant.DeviceLifetime)
		poll(expired).wantRefused("expired_token")
		b.get(expired.text("verification_uri_complete")).want(http.StatusBadRequest)
		for range 40 {
			if b.get(f.url+"/device?user_code=BBBBBBBB").status == http.StatusTooManyRequests {
				return
			}
		}
		t.Error("user codes can be guessed without a limit")
	})
}

// proofMaker makes the DPoP proofs of a client.
type proofMaker struct {
	t     *testing.T
	key   any // the private key
	alg   jose.SignatureAlgorithm
	nonce string // empty for none
}

func newProofMaker(t *testing.T) *proofMaker {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return &proofMaker{t, key, jose.ES256, ""}
}

func (m *proofMaker) proof(jti, method, uri, token string, at time.Time) string {
	options := (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: m.alg, Key: m.key}, options)
	must(m.t, err)
	claims := map[string]any{"jti": jti, "htm": method, "htu": uri, "iat": at.Unix()}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if m.nonce != "" {
		claims["nonce"] = m.nonce
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	must(m.t, err)
	return text
}

// TestBoundTokensNeedAProofOfTheirKey covers the token endpoint, userinfo, the management API and
// refresh tokens.
func TestBoundTokensNeedAProofOfTheirKey(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(public)
		mine, theirs := newProofMaker(t), newProofMaker(t)
		tokenURL, infoURL := f.url+"/oauth/token", f.url+"/userinfo"
		b := f.browser()
		post := func(proof string, pairs ...string) *response {
			return a.postAs(b, "/oauth/token", pairs, "DPoP", proof)
		}
		code := func() []string {
			return []string{
				"grant_type", "authorization_code", "code", a.code(), "redirect_uri", callback, "code_verifier", verifier,
			}
		}
		first := mine.proof("1", "POST", tokenURL, "", f.clock.Now())
		tokens := post(first, code()...).want(http.StatusOK)
		if tokens.text("token_type") != "DPoP" {
			t.Fatalf("got %s", tokens.body)
		}
		access := tokens.text("access_token")
		post(first, code()...).wantRefused(oauth.InvalidDPoPProof) // a replay
		for name, proof := range map[string]string{
			"expired":            mine.proof("2", "POST", tokenURL, "", f.clock.Now().Add(-2*time.Minute)),
			"from the future":    mine.proof("3", "POST", tokenURL, "", f.clock.Now().Add(time.Hour)),
			"for another method": mine.proof("4", "GET", tokenURL, "", f.clock.Now()),
			"for another URI":    mine.proof("5", "POST", "https://evil.example.com/oauth/token", "", f.clock.Now()),
			"without a jti":      mine.proof("", "POST", tokenURL, "", f.clock.Now()),
			"not a JWT":          "x.y.z",
		} {
			if r := post(proof, code()...); r.status != http.StatusBadRequest || r.text("error") != oauth.InvalidDPoPProof {
				t.Errorf("proof %s: got %d %s", name, r.status, r.body)
			}
		}

		info := func(scheme string, headers ...string) *response {
			return b.do("GET", infoURL, nil, append(headers, "Authorization", scheme+" "+access)...)
		}
		info("DPoP", "DPoP", mine.proof("6", "GET", infoURL, access, f.clock.Now())).want(http.StatusOK)
		info("Bearer").wantError(http.StatusUnauthorized, oauth.InvalidToken)
		info("DPoP").want(http.StatusUnauthorized)
		for _, proof := range []string{
			theirs.proof("7", "GET", infoURL, access, f.clock.Now()),
			mine.proof("8", "GET", infoURL, "another token", f.clock.Now()),
		} {
			info("DPoP", "DPoP", proof).wantError(http.StatusUnauthorized, oauth.InvalidDPoPProof)
		}
		if _, err := f.provider.Caller(t.Context(), access); err == nil {
			t.Error("the management API accepts it as a Bearer token")
		}

		refresh := []string{"grant_type", "refresh_token", "refresh_token", tokens.text("refresh_token")}
		a.post("/oauth/token", refresh...).wantRefused(oauth.InvalidDPoPProof)
		post(theirs.proof("9", "POST", tokenURL, "", f.clock.Now()), refresh...).wantRefused(oauth.InvalidDPoPProof)
		post(mine.proof("10", "POST", tokenURL, "", f.clock.Now()), refresh...).want(http.StatusOK)
	})
}

// TestRevocation checks that revoking an access token revokes that one, and revoking a refresh
// token the grant.
func TestRevocation(t *testing.T) {
	each(t, func(_ *testing.T, f *fixture) {
		a := f.newApp(confidential)
		tokens := a.tokens()
		more := a.refresh(tokens["refresh_token"].(string)).want(http.StatusOK)
		a.post("/revoke", "token", tokens["access_token"].(string), "token_type_hint", "refresh_token").want(http.StatusOK)
		a.wantInvalid(tokens["access_token"], "revoked")
		f.userinfo(more.text("access_token")).want(http.StatusOK)
		a.post("/revoke", "token", more.text("refresh_token")).want(http.StatusOK)
		a.wantInvalid(more.text("access_token"), "refresh token revoked")
		a.refresh(more.text("refresh_token")).wantRefused(oauth.InvalidGrant)
		a.post("/revoke", "token", "never seen").want(http.StatusOK)
		a.post("/revoke").wantRefused(oauth.InvalidRequest)
		impostor := &app{f: f, id: a.id, secret: "wrong"}
		impostor.post("/revoke", "token", "x").wantError(http.StatusUnauthorized, oauth.InvalidClient)
		p := f.newApp(public)
		p.post("/introspect", "token", "x").wantError(http.StatusUnauthorized, oauth.InvalidClient)
	})
}

func TestMoreRevocationsThanAreCached(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		good, bad := a.tokens()["access_token"].(string), a.tokens()["access_token"].(string)
		f.revokeMany(grant.MaxCached + 10)
		a.post("/revoke", "token", bad).want(http.StatusOK)
		a.wantInvalid(bad, "revoked among many")
		f.userinfo(good).want(http.StatusOK)
		f.clock.add(48 * time.Hour)
		must(t, f.provider.Purge(t.Context()))
		var left int
		must(t, f.db.Read(t.Context()).Row(`SELECT count(*) FROM oidc_revoked`).Scan(&left))
		if left != 0 {
			t.Errorf("%d rows are left", left)
		}
	})
}

func TestCORSIsAllowedForEndpointsAndNotForPages(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.browser()
		for _, path := range []string{
			"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/jwks", "/oauth/token",
			"/userinfo", "/revoke",
		} {
			r := b.do("OPTIONS", f.url+path, nil, "Origin", "https://spa.example.com", "Access-Control-Request-Method", "POST")
			r.want(http.StatusNoContent)
			if r.header.Get("Access-Control-Allow-Origin") != "*" || r.header.Get("Access-Control-Allow-Credentials") != "" ||
				!strings.Contains(r.header.Get("Access-Control-Allow-Headers"), "DPoP") {
				t.Errorf("%s: %v", path, r.header)
			}
		}
		if r := b.get(f.url + "/authorize"); r.header.Get("Access-Control-Allow-Origin") != "" {
			t.Error("CORS is allowed for a page")
		}
		set := b.get(f.url + "/jwks").want(http.StatusOK)
		if set.header.Get("Cache-Control") != "public, max-age=45" || strings.Contains(set.body, `"d":`) {
			t.Errorf("%v %s", set.header, set.body)
		}
		if r := b.get(f.url + "/userinfo").want(http.StatusUnauthorized); r.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("got %v", r.header)
		}
	})
}

// TestInvitedMemberSetsAndChangesThePassword goes from the invitation to the account page.
func TestInvitedMemberSetsAndChangesThePassword(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		_, token, err := f.accounts.Invite(f.ctx, f.orgID, f.userID, member("new@example.com"))
		must(t, err)
		b := f.browser()
		page := b.get(f.url + "/invite/" + token).want(http.StatusOK)
		for _, refused := range []string{"too short", "Password123!", "new@example.com"} {
			b.submit(page, "password", refused).want(http.StatusBadRequest)
		}
		mine := b.follow(b.submit(page, "password", "a first password")).want(http.StatusOK)
		if !strings.Contains(mine.body, "new@example.com") || !strings.Contains(mine.body, ">current<") {
			t.Fatalf("not signed in: %s", mine.body)
		}
		b.get(f.url + "/invite/" + token).want(http.StatusNotFound)
		b.submit(page, "password", "another password").want(http.StatusNotFound)

		elsewhere := f.browser()
		signIn := func(email, password string) *response {
			return elsewhere.submit(elsewhere.get(f.url+"/account"), "email", email, "password", password)
		}
		there := elsewhere.follow(signIn("NEW@example.com", "a first password")).want(http.StatusOK)
		if !strings.Contains(there.body, "Your account") {
			t.Fatal("the first password does not work")
		}
		b.submit(mine, "password", "wrong", "new_password", "a second password").want(http.StatusBadRequest)
		for _, refused := range []string{"too short", "1234567890", "new@example.com"} {
			b.submit(mine, "password", "a first password", "new_password", refused).want(http.StatusBadRequest)
		}
		b.submit(mine, "password", "a first password", "new_password", "a second password").want(http.StatusOK)
		if strings.Contains(elsewhere.get(f.url+"/account").body, "Your account") {
			t.Error("the other session has not ended with the change of the password")
		}
		signIn("new@example.com", "a first password").want(http.StatusBadRequest)
		signIn("new@example.com", "a second password").want(http.StatusSeeOther)

		list := b.get(f.url + "/account").want(http.StatusOK)
		forms := formTag.FindAllString(list.body, -1)
		var targets []string
		for _, text := range forms {
			_, action, _ := (&response{t: t, status: 200, body: text}).form()
			targets = append(targets, action)
		}
		want := []string{"/account/password", "/account/profile", "/account/keys", "/account/sessions", "/account/sessions", "/account/sign-out"}
		if !slices.Equal(targets, want) || !strings.Contains(list.body, `current</span><br>`) {
			t.Errorf("the forms are %v, want %v", targets, want)
		}
	})
}

func member(email string) account.NewMember {
	return account.NewMember{Email: email, Role: auth.Member}
}

func TestSessionsExpire(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		b := f.browser()
		b.complete(b.get(a.authorizeURL()))
		signedIn := func() bool {
			return !strings.Contains(b.get(a.authorizeURL("prompt", "none")).header.Get("Location"), "login_required")
		}
		for range 4 {
			f.clock.add(session.IdleTimeout - time.Hour)
			if !signedIn() {
				t.Fatal("a session in use has expired")
			}
		}
		f.clock.add(session.IdleTimeout - time.Hour) // beyond session.MaxAge in total
		if signedIn() {
			t.Error("the session has not expired")
		}
	})
}
