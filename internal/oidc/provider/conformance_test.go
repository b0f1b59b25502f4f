package provider_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
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

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

// The parties of a module.
type (
	fixture = providertest.Fixture
	app     = providertest.App
	browser = providertest.Browser
)

// module is a test of the OpenID conformance suite, by its name there, as a test of ours. The client is
// confidential, and nobody is signed in in the browser. docs/conformance.md lists all modules.
type module struct {
	name string
	test func(f *fixture, a *app, b *browser)
}

// runModules runs modules one after the other, on one provider.
func runModules(t *testing.T, modules []module) {
	f := providertest.OnSQLite(t)
	_, err := f.DB.Exec(t.Context(), `UPDATE users SET first_name = 'Ada', last_name = 'Lovelace' WHERE id = $1`, f.UserID)
	providertest.Must(t, err)
	for _, m := range modules {
		t.Run(m.name, func(t *testing.T) {
			f.T = t
			m.test(f, f.NewApp(providertest.Confidential), f.Browser())
		})
	}
}

// tokensIn gets tokens with a code for the user of a browser, who signs in if asked.
func tokensIn(a *app, b *browser, pairs ...string) map[string]any {
	a.Fixture.T.Helper()
	return a.Redeem(codeFrom(a, b, b.Get(a.AuthorizeURL(pairs...)))).Want(http.StatusOK).JSON()
}

// codeFrom completes an authorization and returns its code.
func codeFrom(a *app, b *browser, r *providertest.Response) string {
	a.Fixture.T.Helper()
	result := b.Complete(r)
	if result.Get("code") == "" || result.Get("state") != "xyz" {
		a.Fixture.T.Fatalf("got %v, want a code", result)
	}
	return result.Get("code")
}

// silentTokens gets tokens without any page.
func silentTokens(a *app, b *browser, pairs ...string) map[string]any {
	a.Fixture.T.Helper()
	r := b.Get(a.AuthorizeURL(pairs...)).Want(http.StatusSeeOther)
	return a.Redeem(codeFrom(a, b, r)).Want(http.StatusOK).JSON()
}

// wantSameSignIn requires that two ID tokens are of one user and, if the user has not signed in again, of
// one time.
func wantSameSignIn(f *fixture, first, second map[string]any, again bool) {
	f.T.Helper()
	one, two := providertest.Claims(f.T, first["id_token"]), providertest.Claims(f.T, second["id_token"])
	if one["sub"] != f.UserID || two["sub"] != f.UserID {
		f.T.Errorf("the ID tokens are of %v and %v, want %s", one["sub"], two["sub"], f.UserID)
	}
	before, _ := one["auth_time"].(float64)
	after, _ := two["auth_time"].(float64)
	if before == 0 || again && after <= before || !again && after != before {
		f.T.Errorf("auth_time was %v and is %v", one["auth_time"], two["auth_time"])
	}
	if amr := fmt.Sprint(two["acr"], two["amr"]); amr != "pwd[pwd]" {
		f.T.Errorf("acr and amr are %s", amr)
	}
}

// wantRedirectedError requires that the client gets an error by redirect.
func wantRedirectedError(f *fixture, r *providertest.Response, code string) {
	f.T.Helper()
	u, err := url.Parse(r.Want(http.StatusSeeOther).Header.Get("Location"))
	providertest.Must(f.T, err)
	if !strings.HasPrefix(u.String(), providertest.Callback+"?") || u.Query().Get("error") != code ||
		u.Query().Get("state") != "xyz" {
		f.T.Errorf("got a redirect to %s, want the error %s", u, code)
	}
}

// unsigned returns a JWT with the algorithm none.
func unsigned(payload string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none"}`)) + "." + encode([]byte(payload)) + "."
}

// succeedsWith is a module whose request has additional parameters that must not make it fail.
func succeedsWith(name string, pairs ...string) module {
	return module{name, func(_ *fixture, a *app, b *browser) { tokensIn(a, b, pairs...) }}
}

// TestBasicPlan has modules of oidcc-basic-certification-test-plan.
func TestBasicPlan(t *testing.T) {
	runModules(t, []module{
		{"oidcc-response-type-missing", func(f *fixture, a *app, b *browser) {
			wantRedirectedError(f, b.Get(a.AuthorizeURL("response_type", "")), oauth.InvalidRequest)
		}},
		{"oidcc-userinfo-post-header", func(f *fixture, a *app, b *browser) {
			token := tokensIn(a, b)["access_token"].(string)
			info := b.Do("POST", f.URL+"/userinfo", url.Values{}, "Authorization", "Bearer "+token).Want(http.StatusOK)
			if info.Text("sub") != f.UserID {
				f.T.Errorf("got %s", info.Body)
			}
		}},
		{"oidcc-userinfo-post-body", func(f *fixture, a *app, b *browser) {
			token := tokensIn(a, b)["access_token"].(string)
			info := b.Do("POST", f.URL+"/userinfo", url.Values{"access_token": {token}}).Want(http.StatusOK)
			if info.Text("sub") != f.UserID {
				f.T.Errorf("got %s", info.Body)
			}
		}},
		{"oidcc-ensure-request-without-nonce-succeeds-for-code-flow", func(f *fixture, a *app, b *browser) {
			if got := providertest.Claims(f.T, tokensIn(a, b, "nonce", "")["id_token"]); got["nonce"] != nil {
				f.T.Errorf("the ID token has the nonce %v", got["nonce"])
			}
		}},
		{"oidcc-scope-profile", func(f *fixture, a *app, b *browser) {
			info := f.Userinfo(tokensIn(a, b, "scope", "openid profile")["access_token"].(string)).
				Want(http.StatusOK).JSON()
			if info["name"] != "Ada Lovelace" || info["given_name"] != "Ada" || info["family_name"] != "Lovelace" ||
				info["updated_at"] == nil || info["email"] != nil {
				f.T.Errorf("got %v", info)
			}
		}},
		{"oidcc-scope-email", func(f *fixture, a *app, b *browser) {
			info := f.Userinfo(tokensIn(a, b, "scope", "openid email")["access_token"].(string)).
				Want(http.StatusOK).JSON()
			if info["email"] != providertest.OwnerEmail || info["name"] != nil {
				f.T.Errorf("got %v", info)
			}
		}},
		{"oidcc-scope-all", func(f *fixture, a *app, b *browser) { // address and phone are unknown here
			tokens := tokensIn(a, b, "scope", "openid profile email address phone")
			if tokens["scope"] != "openid profile email" {
				f.T.Errorf("got the scopes %v", tokens["scope"])
			}
			info := f.Userinfo(tokens["access_token"].(string)).Want(http.StatusOK).JSON()
			if info["email"] != providertest.OwnerEmail || info["name"] != "Ada Lovelace" {
				f.T.Errorf("got %v", info)
			}
		}},
		{"oidcc-alternate-happy-flow", func(f *fixture, a *app, b *browser) {
			params := strings.Split(a.Params("scope", "offline_access email profile openid").Encode(), "&")
			slices.Reverse(params)
			code := codeFrom(a, b, b.Get(f.URL+"/authorize?"+strings.Join(params, "&")))
			a.Redeem(code).Want(http.StatusOK)
		}},
		succeedsWith("oidcc-display-page", "display", "page"),
		succeedsWith("oidcc-display-popup", "display", "popup"),
		{"oidcc-prompt-login", func(f *fixture, a *app, b *browser) {
			first := tokensIn(a, b)
			f.Clock.Add(2 * time.Second)
			page := b.Get(a.AuthorizeURL("prompt", "login")).Want(http.StatusOK)
			if !strings.Contains(page.Body, `name="password"`) {
				f.T.Errorf("this is not the sign-in page: %s", page.Body)
			}
			wantSameSignIn(f, first, a.Redeem(codeFrom(a, b, page)).Want(http.StatusOK).JSON(), true)
		}},
		{"oidcc-prompt-none-not-logged-in", func(f *fixture, a *app, b *browser) {
			wantRedirectedError(f, b.Get(a.AuthorizeURL("prompt", "none")), oauth.LoginRequired)
		}},
		{"oidcc-prompt-none-logged-in", func(f *fixture, a *app, b *browser) {
			first := tokensIn(a, b)
			f.Clock.Add(2 * time.Second)
			wantSameSignIn(f, first, silentTokens(a, b, "prompt", "none"), false)
		}},
		{"oidcc-max-age-1", func(f *fixture, a *app, b *browser) {
			first := tokensIn(a, b)
			f.Clock.Add(2 * time.Second)
			page := b.Get(a.AuthorizeURL("max_age", "1")).Want(http.StatusOK)
			wantSameSignIn(f, first, a.Redeem(codeFrom(a, b, page)).Want(http.StatusOK).JSON(), true)
		}},
		{"oidcc-max-age-10000", func(f *fixture, a *app, b *browser) {
			first := tokensIn(a, b, "max_age", "15000")
			f.Clock.Add(2 * time.Second)
			wantSameSignIn(f, first, silentTokens(a, b, "max_age", "10000"), false)
		}},
		{"oidcc-ensure-request-with-unknown-parameter-succeeds", func(f *fixture, a *app, b *browser) {
			params := a.Params("flow", "unknown too")
			params["extra"] = []string{"foobar", "foobar"}
			a.Redeem(codeFrom(a, b, b.Get(f.URL+"/authorize?"+params.Encode()))).Want(http.StatusOK)
		}},
		{"oidcc-id-token-hint", func(f *fixture, a *app, b *browser) {
			first := tokensIn(a, b)
			f.Clock.Add(2 * time.Second)
			wantSameSignIn(f, first, silentTokens(a, b, "prompt", "none",
				"id_token_hint", first["id_token"].(string)), false)
		}},
		succeedsWith("oidcc-login-hint", "login_hint", "buffy@example.com"),
		succeedsWith("oidcc-ui-locales", "ui_locales", "se"),
		succeedsWith("oidcc-claims-locales", "claims_locales", "se"),
		succeedsWith("oidcc-ensure-request-with-acr-values-succeeds", "acr_values", "1 2"),
		{"oidcc-codereuse-30seconds", func(f *fixture, a *app, b *browser) {
			code := codeFrom(a, b, b.Get(a.AuthorizeURL()))
			tokens := a.Redeem(code).Want(http.StatusOK).JSON()
			f.Clock.Add(30 * time.Second)
			a.Redeem(code).WantRefused(oauth.InvalidGrant)
			a.WantInvalid(tokens["access_token"], "after the reuse")
		}},
		{"oidcc-ensure-post-request-succeeds", func(f *fixture, a *app, b *browser) {
			a.Redeem(codeFrom(a, b, b.Do("POST", f.URL+"/authorize", a.Params()))).Want(http.StatusOK)
		}},
		{"oidcc-server-client-secret-post", func(f *fixture, a *app, b *browser) {
			code := codeFrom(a, b, b.Get(a.AuthorizeURL()))
			tokens := b.Do("POST", f.URL+"/oauth/token", url.Values{
				"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {providertest.Callback},
				"code_verifier": {providertest.Verifier},
				"client_id":     {a.ID}, "client_secret": {a.Secret},
			}).Want(http.StatusOK)
			f.Userinfo(tokens.Text("access_token")).Want(http.StatusOK)
		}},
		{
			"oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported",
			func(f *fixture, a *app, b *browser) {
				r := b.Get(a.AuthorizeURL("request_uri", "https://rp.example.com/request.jwt"))
				wantRedirectedError(f, r, "request_uri_not_supported")
			},
		},
		{
			"oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported",
			func(f *fixture, a *app, b *browser) {
				r := b.Get(a.AuthorizeURL("request", unsigned(`{"client_id":"`+a.ID+`"}`)))
				wantRedirectedError(f, r, "request_not_supported")
			},
		},
		succeedsWith("oidcc-claims-essential", "claims", `{"userinfo":{"name":{"essential":true}}}`),
		{"oidcc-ensure-request-object-with-redirect-uri", func(f *fixture, a *app, b *browser) {
			object := unsigned(`{"redirect_uri":"` + providertest.Callback + `"}`)
			r := b.Get(a.AuthorizeURL("redirect_uri", providertest.Callback+"/other", "request", object)).
				Want(http.StatusBadRequest)
			if to := r.Header.Get("Location"); to != "" {
				f.T.Errorf("got a redirect to %s", to)
			}
		}},
		{"oidcc-refresh-token", func(f *fixture, a *app, b *browser) {
			first := tokensIn(a, b)
			f.Clock.Add(2 * time.Second)
			fresh := a.Refresh(first["refresh_token"].(string)).Want(http.StatusOK).JSON()
			wantSameSignIn(f, first, fresh, false)
			one, two := providertest.Claims(f.T, first["id_token"]), providertest.Claims(f.T, fresh["id_token"])
			if two["iss"] != one["iss"] || two["aud"] != one["aud"] || two["iat"] == one["iat"] {
				f.T.Errorf("the ID token had %v and has %v", one, two)
			}
			f.NewApp(providertest.Confidential).Refresh(fresh["refresh_token"].(string)).WantRefused(oauth.InvalidGrant)
		}},
	})
}

// TestConfigPlan has the module of oidcc-config-certification-test-plan. That endpoints use HTTPS
// depends on the base URL.
func TestConfigPlan(t *testing.T) {
	runModules(t, []module{{"oidcc-discovery-endpoint-verification", func(f *fixture, _ *app, b *browser) {
		r := b.Get(f.URL + "/.well-known/openid-configuration").Want(http.StatusOK)
		if got := r.Header.Get("Content-Type"); got != "application/json" {
			f.T.Errorf("the Content-Type is %s", got)
		}
		document := r.JSON()
		if document["issuer"] != f.URL {
			f.T.Errorf("the issuer is %v", document["issuer"])
		}
		for name, want := range map[string]string{
			"scopes_supported": "openid", "response_types_supported": "code", "subject_types_supported": "public",
			"grant_types_supported": "authorization_code", "id_token_signing_alg_values_supported": "RS256",
			"token_endpoint_auth_methods_supported": "client_secret_basic", "claims_supported": "sub",
			"code_challenge_methods_supported": "S256",
		} {
			if list, _ := document[name].([]any); !slices.Contains(list, any(want)) {
				f.T.Errorf("%s is %v, without %s", name, document[name], want)
			}
		}
		for name, value := range document {
			address, isText := value.(string)
			if strings.HasSuffix(name, "_endpoint") && (!isText || !strings.HasPrefix(address, f.URL+"/")) {
				f.T.Errorf("%s is %v", name, value)
			}
		}
		var set struct{ Keys []map[string]any }
		providertest.Must(f.T, json.Unmarshal([]byte(b.Get(document["jwks_uri"].(string)).Want(http.StatusOK).Body), &set))
		seen := map[any]bool{}
		for _, key := range set.Keys {
			if key["kid"] == nil || seen[key["kid"]] || key["use"] != "sig" || key["alg"] == nil ||
				key["d"] != nil || key["k"] != nil {
				f.T.Errorf("the key %v is not a public one with an id of its own", key["kid"])
			}
			seen[key["kid"]] = true
		}
		if len(seen) == 0 {
			f.T.Error("no keys are published")
		}
	}}})
}

// wantSignedOut requires that no user is signed in.
func wantSignedOut(a *app, b *browser) {
	a.Fixture.T.Helper()
	wantRedirectedError(a.Fixture, b.Get(a.AuthorizeURL("prompt", "none")), oauth.LoginRequired)
}

// wantQuestion requires a page that asks the user, who is still signed in, and who is signed out after
// approval without being redirected.
func wantQuestion(a *app, b *browser, page *providertest.Response) {
	a.Fixture.T.Helper()
	if to := page.Want(http.StatusOK).Header.Get("Location"); to != "" ||
		!providertest.FormTag.MatchString(page.Body) {
		a.Fixture.T.Fatalf("got a redirect to %q and %s, want a question", to, page.Body)
	}
	silentTokens(a, b, "prompt", "none")
	b.Submit(page).Want(http.StatusOK)
	wantSignedOut(a, b)
}

// signsOut is a module in which the user, if asked, confirms, is signed out and told so.
func signsOut(name string, params func(hint string) []string) module {
	return module{name, func(f *fixture, a *app, b *browser) {
		page := b.LogOut(params(tokensIn(a, b)["id_token"].(string))...).Want(http.StatusOK)
		if providertest.FormTag.MatchString(page.Body) {
			page = b.Submit(page).Want(http.StatusOK)
		}
		if !strings.Contains(page.Body, "You are signed out") {
			f.T.Errorf("the page is %s", page.Body)
		}
		wantSignedOut(a, b)
	}}
}

// TestLogoutPlan has modules of oidcc-rp-initiated-logout-certification-test-plan.
func TestLogoutPlan(t *testing.T) {
	redirects := func(name, location string, pairs ...string) module {
		return module{name, func(f *fixture, a *app, b *browser) {
			hint := tokensIn(a, b)["id_token"].(string)
			pairs := append([]string{"id_token_hint", hint, "post_logout_redirect_uri", providertest.Bye}, pairs...)
			r := b.LogOut(pairs...).Want(http.StatusSeeOther)
			if got := r.Header.Get("Location"); got != location {
				f.T.Errorf("got a redirect to %s, want %s", got, location)
			}
			wantSignedOut(a, b)
		}}
	}
	asks := func(name string, params func(f *fixture, hint string) []string) module {
		return module{name, func(f *fixture, a *app, b *browser) {
			hint := tokensIn(a, b)["id_token"].(string)
			wantQuestion(a, b, b.LogOut(params(f, hint)...))
		}}
	}
	runModules(t, []module{
		redirects("oidcc-rp-initiated-logout", providertest.Bye+"?state=left", "state", "left"),
		redirects("oidcc-rp-initiated-logout-no-state", providertest.Bye),
		asks("oidcc-rp-initiated-logout-bad-post-logout-redirect-uri", func(_ *fixture, hint string) []string {
			return []string{
				"id_token_hint", hint, "post_logout_redirect_uri", "https://rp.example.com/other", "state", "left",
			}
		}),
		asks("oidcc-rp-initiated-logout-query-added-to-post-logout-redirect-uri",
			func(_ *fixture, hint string) []string {
				return []string{
					"id_token_hint", hint, "post_logout_redirect_uri", providertest.Bye + "?foo=bar", "state", "left",
				}
			}),
		asks("oidcc-rp-initiated-logout-modified-id-token-hint", func(_ *fixture, hint string) []string {
			payload, err := base64.RawURLEncoding.DecodeString(strings.Split(hint, ".")[1])
			providertest.Must(t, err)
			return []string{
				"id_token_hint", unsigned(string(payload)), "post_logout_redirect_uri", providertest.Bye, "state", "left",
			}
		}),
		asks("oidcc-rp-initiated-logout-bad-id-token-hint", func(f *fixture, hint string) []string {
			return []string{
				"id_token_hint", resigned(f, hint), "post_logout_redirect_uri", providertest.Bye, "state", "left",
			}
		}),
		asks("oidcc-rp-initiated-logout-no-id-token-hint", func(*fixture, string) []string {
			return []string{"post_logout_redirect_uri", providertest.Bye, "state", "left"}
		}),
		signsOut("oidcc-rp-initiated-logout-no-params", func(string) []string { return nil }),
		signsOut("oidcc-rp-initiated-logout-only-state", func(string) []string { return []string{"state", "left"} }),
		signsOut("oidcc-rp-initiated-logout-no-post-logout-redirect-uri", func(hint string) []string {
			return []string{"id_token_hint", hint, "state", "left"}
		}),
	})
}

// resigned returns the same ID token, signed with a key that the provider does not know.
func resigned(f *fixture, token string) string {
	f.T.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	providertest.Must(f.T, err)
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", providertest.Header(f.T, token)["kid"])
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, options)
	providertest.Must(f.T, err)
	text, err := josejwt.Signed(signer).Claims(providertest.Claims(f.T, token)).Serialize()
	providertest.Must(f.T, err)
	return text
}

// TestConformanceTableNamesTests checks that every test in docs/conformance.md and docs/s3.md exists.
func TestConformanceTableNamesTests(t *testing.T) {
	const root = "../../../"
	table, err := os.ReadFile(root + "docs/conformance.md")
	providertest.Must(t, err)
	s3, err := os.ReadFile(root + "docs/s3.md")
	providertest.Must(t, err)
	table = append(table, s3...)
	named := regexp.MustCompile("`((?:internal|e2e)[a-z0-9/]*)`\\s+`(Test\\w+)(?:/([a-z0-9-]+))?`").FindAllStringSubmatch(string(table), -1)
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
	providertest.Must(t, err)
	var all strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file.Name(), "_test.go") {
			text, err := os.ReadFile(dir + "/" + file.Name())
			providertest.Must(t, err)
			all.Write(text)
		}
	}
	return all.String()
}
