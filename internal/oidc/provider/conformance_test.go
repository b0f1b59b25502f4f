package provider

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/db"
	"steward/internal/oidc/provider/oauth"
)

// module is a test of the OpenID conformance suite, by its name there, as a test of ours. The client is
// confidential, and nobody is signed in in the browser. docs/conformance.md lists all modules.
type module struct {
	name string
	test func(f *fixture, a *app, b *browser)
}

// runModules runs modules one after the other, on one provider for each database.
func runModules(t *testing.T, modules []module) {
	each(t, func(t *testing.T, f *fixture) {
		must(t, f.db.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE users SET first_name = 'Ada', last_name = 'Lovelace' WHERE id = $1`, f.userID)
			return err
		}))
		for _, m := range modules {
			t.Run(m.name, func(t *testing.T) {
				f.t = t
				m.test(f, f.newApp(confidential), f.browser())
			})
		}
	})
}

// tokensIn gets tokens with a code for the user of a browser, who signs in if asked.
func (a *app) tokensIn(b *browser, pairs ...string) map[string]any {
	a.f.t.Helper()
	return a.redeem(a.codeFrom(b, b.get(a.authorizeURL(pairs...)))).want(http.StatusOK).json()
}

// codeFrom completes an authorization and returns its code.
func (a *app) codeFrom(b *browser, r *response) string {
	a.f.t.Helper()
	result := b.complete(r)
	if result.Get("code") == "" || result.Get("state") != "xyz" {
		a.f.t.Fatalf("got %v, want a code", result)
	}
	return result.Get("code")
}

// silentTokens gets tokens without any page.
func (a *app) silentTokens(b *browser, pairs ...string) map[string]any {
	a.f.t.Helper()
	r := b.get(a.authorizeURL(pairs...)).want(http.StatusSeeOther)
	return a.redeem(a.codeFrom(b, r)).want(http.StatusOK).json()
}

// wantSameSignIn requires that two ID tokens are of one user and, if the user has not signed in again, of
// one time.
func (f *fixture) wantSameSignIn(first, second map[string]any, again bool) {
	f.t.Helper()
	one, two := claims(f.t, first["id_token"]), claims(f.t, second["id_token"])
	if one["sub"] != f.userID || two["sub"] != f.userID {
		f.t.Errorf("the ID tokens are of %v and %v, want %s", one["sub"], two["sub"], f.userID)
	}
	before, _ := one["auth_time"].(float64)
	after, _ := two["auth_time"].(float64)
	if before == 0 || again && after <= before || !again && after != before {
		f.t.Errorf("auth_time was %v and is %v", one["auth_time"], two["auth_time"])
	}
}

// wantRedirectedError requires that the client gets an error by redirect.
func (f *fixture) wantRedirectedError(r *response, code string) {
	f.t.Helper()
	u, err := url.Parse(r.want(http.StatusSeeOther).header.Get("Location"))
	must(f.t, err)
	if !strings.HasPrefix(u.String(), callback+"?") || u.Query().Get("error") != code || u.Query().Get("state") != "xyz" {
		f.t.Errorf("got a redirect to %s, want the error %s", u, code)
	}
}

// unsigned returns a JWT with the algorithm none.
func unsigned(payload string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(payload)) + "."
}

// succeedsWith is a module whose request has additional parameters that must not make it fail.
func succeedsWith(name string, pairs ...string) module {
	return module{name, func(_ *fixture, a *app, b *browser) { a.tokensIn(b, pairs...) }}
}

// TestBasicPlan has modules of oidcc-basic-certification-test-plan.
func TestBasicPlan(t *testing.T) {
	runModules(t, []module{
		{"oidcc-response-type-missing", func(f *fixture, a *app, b *browser) {
			f.wantRedirectedError(b.get(a.authorizeURL("response_type", "")), oauth.InvalidRequest)
		}},
		{"oidcc-userinfo-post-header", func(f *fixture, a *app, b *browser) {
			token := a.tokensIn(b)["access_token"].(string)
			info := b.do("POST", f.url+"/userinfo", url.Values{}, "Authorization", "Bearer "+token).want(http.StatusOK)
			if info.text("sub") != f.userID {
				f.t.Errorf("got %s", info.body)
			}
		}},
		{"oidcc-userinfo-post-body", func(f *fixture, a *app, b *browser) {
			token := a.tokensIn(b)["access_token"].(string)
			info := b.do("POST", f.url+"/userinfo", url.Values{"access_token": {token}}).want(http.StatusOK)
			if info.text("sub") != f.userID {
				f.t.Errorf("got %s", info.body)
			}
		}},
		{"oidcc-ensure-request-without-nonce-succeeds-for-code-flow", func(f *fixture, a *app, b *browser) {
			if got := claims(f.t, a.tokensIn(b, "nonce", "")["id_token"]); got["nonce"] != nil {
				f.t.Errorf("the ID token has the nonce %v", got["nonce"])
			}
		}},
		{"oidcc-scope-profile", func(f *fixture, a *app, b *browser) {
			info := f.userinfo(a.tokensIn(b, "scope", "openid profile")["access_token"].(string)).want(http.StatusOK).json()
			if info["name"] != "Ada Lovelace" || info["given_name"] != "Ada" || info["family_name"] != "Lovelace" ||
				info["updated_at"] == nil || info["email"] != nil {
				f.t.Errorf("got %v", info)
			}
		}},
		{"oidcc-scope-email", func(f *fixture, a *app, b *browser) {
			info := f.userinfo(a.tokensIn(b, "scope", "openid email")["access_token"].(string)).want(http.StatusOK).json()
			if info["email"] != ownerEmail || info["name"] != nil {
				f.t.Errorf("got %v", info)
			}
		}},
		{"oidcc-scope-all", func(f *fixture, a *app, b *browser) { // address and phone are unknown here
			tokens := a.tokensIn(b, "scope", "openid profile email address phone")
			if tokens["scope"] != "openid profile email" {
				f.t.Errorf("got the scopes %v", tokens["scope"])
			}
			info := f.userinfo(tokens["access_token"].(string)).want(http.StatusOK).json()
			if info["email"] != ownerEmail || info["name"] != "Ada Lovelace" {
				f.t.Errorf("got %v", info)
			}
		}},
		{"oidcc-alternate-happy-flow", func(f *fixture, a *app, b *browser) {
			params := strings.Split(a.params("scope", "offline_access email profile openid").Encode(), "&")
			slices.Reverse(params)
			code := a.codeFrom(b, b.get(f.url+"/authorize?"+strings.Join(params, "&")))
			a.redeem(code).want(http.StatusOK)
		}},
		succeedsWith("oidcc-display-page", "display", "page"),
		succeedsWith("oidcc-display-popup", "display", "popup"),
		{"oidcc-prompt-login", func(f *fixture, a *app, b *browser) {
			first := a.tokensIn(b)
			f.clock.add(2 * time.Second)
			page := b.get(a.authorizeURL("prompt", "login")).want(http.StatusOK)
			if !strings.Contains(page.body, `name="password"`) {
				f.t.Errorf("this is not the sign-in page: %s", page.body)
			}
			f.wantSameSignIn(first, a.redeem(a.codeFrom(b, page)).want(http.StatusOK).json(), true)
		}},
		{"oidcc-prompt-none-not-logged-in", func(f *fixture, a *app, b *browser) {
			f.wantRedirectedError(b.get(a.authorizeURL("prompt", "none")), oauth.LoginRequired)
		}},
		{"oidcc-prompt-none-logged-in", func(f *fixture, a *app, b *browser) {
			first := a.tokensIn(b)
			f.clock.add(2 * time.Second)
			f.wantSameSignIn(first, a.silentTokens(b, "prompt", "none"), false)
		}},
		{"oidcc-max-age-1", func(f *fixture, a *app, b *browser) {
			first := a.tokensIn(b)
			f.clock.add(2 * time.Second)
			page := b.get(a.authorizeURL("max_age", "1")).want(http.StatusOK)
			f.wantSameSignIn(first, a.redeem(a.codeFrom(b, page)).want(http.StatusOK).json(), true)
		}},
		{"oidcc-max-age-10000", func(f *fixture, a *app, b *browser) {
			first := a.tokensIn(b, "max_age", "15000")
			f.clock.add(2 * time.Second)
			f.wantSameSignIn(first, a.silentTokens(b, "max_age", "10000"), false)
		}},
		{"oidcc-ensure-request-with-unknown-parameter-succeeds", func(f *fixture, a *app, b *browser) {
			params := a.params("flow", "unknown too")
			params["extra"] = []string{"foobar", "foobar"}
			a.redeem(a.codeFrom(b, b.get(f.url+"/authorize?"+params.Encode()))).want(http.StatusOK)
		}},
		{"oidcc-id-token-hint", func(f *fixture, a *app, b *browser) {
			first := a.tokensIn(b)
			f.clock.add(2 * time.Second)
			f.wantSameSignIn(first, a.silentTokens(b, "prompt", "none", "id_token_hint", first["id_token"].(string)), false)
		}},
		succeedsWith("oidcc-login-hint", "login_hint", "buffy@example.com"),
		succeedsWith("oidcc-ui-locales", "ui_locales", "se"),
		succeedsWith("oidcc-claims-locales", "claims_locales", "se"),
		succeedsWith("oidcc-ensure-request-with-acr-values-succeeds", "acr_values", "1 2"),
		{"oidcc-codereuse-30seconds", func(f *fixture, a *app, b *browser) {
			code := a.codeFrom(b, b.get(a.authorizeURL()))
			tokens := a.redeem(code).want(http.StatusOK).json()
			f.clock.add(30 * time.Second)
			a.redeem(code).wantRefused(oauth.InvalidGrant)
			a.wantInvalid(tokens["access_token"], "after the reuse")
		}},
		{"oidcc-ensure-post-request-succeeds", func(f *fixture, a *app, b *browser) {
			a.redeem(a.codeFrom(b, b.do("POST", f.url+"/authorize", a.params()))).want(http.StatusOK)
		}},
		{"oidcc-server-client-secret-post", func(f *fixture, a *app, b *browser) {
			code := a.codeFrom(b, b.get(a.authorizeURL()))
			tokens := b.do("POST", f.url+"/oauth/token", url.Values{
				"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}, "code_verifier": {verifier},
				"client_id": {a.id}, "client_secret": {a.secret},
			}).want(http.StatusOK)
			f.userinfo(tokens.text("access_token")).want(http.StatusOK)
		}},
		{
			"oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported",
			func(f *fixture, a *app, b *browser) {
				r := b.get(a.authorizeURL("request_uri", "https://rp.example.com/request.jwt"))
				f.wantRedirectedError(r, "request_uri_not_supported")
			},
		},
		{
			"oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported",
			func(f *fixture, a *app, b *browser) {
				r := b.get(a.authorizeURL("request", unsigned(`{"client_id":"`+a.id+`"}`)))
				f.wantRedirectedError(r, "request_not_supported")
			},
		},
		succeedsWith("oidcc-claims-essential", "claims", `{"userinfo":{"name":{"essential":true}}}`),
		{"oidcc-ensure-request-object-with-redirect-uri", func(f *fixture, a *app, b *browser) {
			object := unsigned(`{"redirect_uri":"` + callback + `"}`)
			r := b.get(a.authorizeURL("redirect_uri", callback+"/other", "request", object)).want(http.StatusBadRequest)
			if to := r.header.Get("Location"); to != "" {
				f.t.Errorf("got a redirect to %s", to)
			}
		}},
		{"oidcc-refresh-token", func(f *fixture, a *app, b *browser) {
			first := a.tokensIn(b)
			f.clock.add(2 * time.Second)
			fresh := a.refresh(first["refresh_token"].(string)).want(http.StatusOK).json()
			f.wantSameSignIn(first, fresh, false)
			one, two := claims(f.t, first["id_token"]), claims(f.t, fresh["id_token"])
			if two["iss"] != one["iss"] || two["aud"] != one["aud"] || two["iat"] == one["iat"] {
				f.t.Errorf("the ID token had %v and has %v", one, two)
			}
			f.newApp(confidential).refresh(fresh["refresh_token"].(string)).wantRefused(oauth.InvalidGrant)
		}},
	})
}

// TestConfigPlan has the module of oidcc-config-certification-test-plan. That endpoints use HTTPS
// depends on the base URL.
func TestConfigPlan(t *testing.T) {
	runModules(t, []module{{"oidcc-discovery-endpoint-verification", func(f *fixture, _ *app, b *browser) {
		r := b.get(f.url + "/.well-known/openid-configuration").want(http.StatusOK)
		if got := r.header.Get("Content-Type"); got != "application/json" {
			f.t.Errorf("the Content-Type is %s", got)
		}
		document := r.json()
		if document["issuer"] != f.url {
			f.t.Errorf("the issuer is %v", document["issuer"])
		}
		for name, want := range map[string]string{
			"scopes_supported": "openid", "response_types_supported": "code", "subject_types_supported": "public",
			"grant_types_supported": "authorization_code", "id_token_signing_alg_values_supported": "RS256",
			"token_endpoint_auth_methods_supported": "client_secret_basic", "claims_supported": "sub",
			"code_challenge_methods_supported": "S256",
		} {
			if list, _ := document[name].([]any); !slices.Contains(list, any(want)) {
				f.t.Errorf("%s is %v, without %s", name, document[name], want)
			}
		}
		for name, value := range document {
			address, isText := value.(string)
			if strings.HasSuffix(name, "_endpoint") && (!isText || !strings.HasPrefix(address, f.url+"/")) {
				f.t.Errorf("%s is %v", name, value)
			}
		}
		var set struct{ Keys []map[string]any }
		must(f.t, json.Unmarshal([]byte(b.get(document["jwks_uri"].(string)).want(http.StatusOK).body), &set))
		seen := map[any]bool{}
		for _, key := range set.Keys {
			if key["kid"] == nil || seen[key["kid"]] || key["use"] != "sig" || key["alg"] == nil || key["d"] != nil || key["k"] != nil {
				f.t.Errorf("the key %v is not a public one with an id of its own", key["kid"])
			}
			seen[key["kid"]] = true
		}
		if len(seen) == 0 {
			f.t.Error("no keys are published")
		}
	}}})
}

// wantSignedOut requires that no user is signed in.
func (a *app) wantSignedOut(b *browser) {
	a.f.t.Helper()
	a.f.wantRedirectedError(b.get(a.authorizeURL("prompt", "none")), oauth.LoginRequired)
}

// wantQuestion requires a page that asks the user, who is still signed in, and who is signed out after
// approval without being redirected.
func (a *app) wantQuestion(b *browser, page *response) {
	a.f.t.Helper()
	if to := page.want(http.StatusOK).header.Get("Location"); to != "" || !formTag.MatchString(page.body) {
		a.f.t.Fatalf("got a redirect to %q and %s, want a question", to, page.body)
	}
	a.silentTokens(b, "prompt", "none")
	b.submit(page).want(http.StatusOK)
	a.wantSignedOut(b)
}

// signsOut is a module in which the user, if asked, confirms, is signed out and told so.
func signsOut(name string, params func(hint string) []string) module {
	return module{name, func(f *fixture, a *app, b *browser) {
		page := b.logOut(params(a.tokensIn(b)["id_token"].(string))...).want(http.StatusOK)
		if formTag.MatchString(page.body) {
			page = b.submit(page).want(http.StatusOK)
		}
		if !strings.Contains(page.body, "You are signed out") {
			f.t.Errorf("the page is %s", page.body)
		}
		a.wantSignedOut(b)
	}}
}

// TestLogoutPlan has modules of oidcc-rp-initiated-logout-certification-test-plan.
func TestLogoutPlan(t *testing.T) {
	redirects := func(name, location string, pairs ...string) module {
		return module{name, func(f *fixture, a *app, b *browser) {
			hint := a.tokensIn(b)["id_token"].(string)
			pairs := append([]string{"id_token_hint", hint, "post_logout_redirect_uri", bye}, pairs...)
			r := b.logOut(pairs...).want(http.StatusSeeOther)
			if got := r.header.Get("Location"); got != location {
				f.t.Errorf("got a redirect to %s, want %s", got, location)
			}
			a.wantSignedOut(b)
		}}
	}
	asks := func(name string, params func(f *fixture, hint string) []string) module {
		return module{name, func(f *fixture, a *app, b *browser) {
			hint := a.tokensIn(b)["id_token"].(string)
			a.wantQuestion(b, b.logOut(params(f, hint)...))
		}}
	}
	runModules(t, []module{
		redirects("oidcc-rp-initiated-logout", bye+"?state=left", "state", "left"),
		redirects("oidcc-rp-initiated-logout-no-state", bye),
		asks("oidcc-rp-initiated-logout-bad-post-logout-redirect-uri", func(_ *fixture, hint string) []string {
			return []string{"id_token_hint", hint, "post_logout_redirect_uri", "https://rp.example.com/other", "state", "left"}
		}),
		asks("oidcc-rp-initiated-logout-query-added-to-post-logout-redirect-uri", func(_ *fixture, hint string) []string {
			return []string{"id_token_hint", hint, "post_logout_redirect_uri", bye + "?foo=bar", "state", "left"}
		}),
		asks("oidcc-rp-initiated-logout-modified-id-token-hint", func(_ *fixture, hint string) []string {
			payload, err := base64.RawURLEncoding.DecodeString(strings.Split(hint, ".")[1])
			must(t, err)
			return []string{"id_token_hint", unsigned(string(payload)), "post_logout_redirect_uri", bye, "state", "left"}
		}),
		asks("oidcc-rp-initiated-logout-bad-id-token-hint", func(f *fixture, hint string) []string {
			return []string{"id_token_hint", f.resigned(hint), "post_logout_redirect_uri", bye, "state", "left"}
		}),
		asks("oidcc-rp-initiated-logout-no-id-token-hint", func(*fixture, string) []string {
			return []string{"post_logout_redirect_uri", bye, "state", "left"}
		}),
		signsOut("oidcc-rp-initiated-logout-no-params", func(string) []string { return nil }),
		signsOut("oidcc-rp-initiated-logout-only-state", func(string) []string { return []string{"state", "left"} }),
		signsOut("oidcc-rp-initiated-logout-no-post-logout-redirect-uri", func(hint string) []string {
			return []string{"id_token_hint", hint, "state", "left"}
		}),
	})
}

// resigned returns the same ID token, signed with a key that the provider does not know.
func (f *fixture) resigned(token string) string {
	f.t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(f.t, err)
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", header(f.t, token)["kid"])
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, options)
	must(f.t, err)
	text, err := josejwt.Signed(signer).Claims(claims(f.t, token)).Serialize()
	must(f.t, err)
	return text
}

// TestConformanceTableNamesTests checks that every test in docs/conformance.md exists.
func TestConformanceTableNamesTests(t *testing.T) {
	const root = "../../../"
	table, err := os.ReadFile(root + "docs/conformance.md")
	must(t, err)
	named := regexp.MustCompile("`((?:internal|e2e)[a-z0-9/]*)` `(Test\\w+)(?:/([a-z0-9-]+))?`").FindAllStringSubmatch(string(table), -1)
	if len(named) < 40 {
		t.Fatalf("the table names %d tests", len(named))
	}
	sources := map[string]string{}
	for _, n := range named {
		dir, test, module := n[1], n[2], n[3]
		if sources[dir] == "" {
			sources[dir] = testSource(t, root+dir)
		}
		if !strings.Contains(sources[dir], "func "+test+"(t *testing.T)") {
			t.Errorf("%s has no %s", dir, test)
		}
		if module != "" && !strings.Contains(sources[dir], `"`+module+`"`) {
			t.Errorf("%s has no module %s", dir, module)
		}
	}
}

// testSource returns the text of the tests of a package.
func testSource(t *testing.T, dir string) string {
	t.Helper()
	files, err := os.ReadDir(dir)
	must(t, err)
	var all strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file.Name(), "_test.go") {
			text, err := os.ReadFile(dir + "/" + file.Name())
			must(t, err)
			all.Write(text)
		}
	}
	return all.String()
}
