package authorize_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

func TestPKCEIsRequired(t *testing.T) {
	f := providertest.OnSQLite(t)
	refused := func(a *providertest.App, pairs ...string) {
		t.Helper()
		r := f.Browser().Get(a.AuthorizeURL(pairs...)).Want(http.StatusSeeOther)
		if !strings.Contains(r.Header.Get("Location"), "error=invalid_request") {
			t.Fatalf("got %s", r.Header.Get("Location"))
		}
	}
	a := f.NewApp(providertest.Public)
	refused(a, "code_challenge", "", "code_challenge_method", "")
	refused(a, "code_challenge_method", "plain")
	refused(a, "code_challenge_method", "")
	refused(a, "code_challenge", "too-short")
	a.Tokens()
	strict := f.NewProvider()
	strict.RequirePKCE = true
	f.Serve(strict)
	refused(f.NewApp(providertest.Confidential), "code_challenge", "", "code_challenge_method", "")
}

// TestUnregisteredRedirectURIIsNotRedirected expects an error page for every redirect URI that is
// not exactly a registered one.
func TestUnregisteredRedirectURIIsNotRedirected(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(`{"redirect_uris": ["https://rp.example.com/callback", "http://127.0.0.1/cb", "http://localhost/cb"]}`)
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
		r := f.Browser().Get(a.AuthorizeURL("redirect_uri", uri))
		if r.Status != http.StatusBadRequest || r.Header.Get("Location") != "" || !strings.Contains(r.Body, "<h1>") {
			t.Errorf("%q got %d, Location %q", uri, r.Status, r.Header.Get("Location"))
		}
	}
	for _, uri := range []string{
		"https://rp.example.com/callback", "http://127.0.0.1:43210/cb", "http://127.0.0.1/cb",
	} {
		f.Browser().Get(a.AuthorizeURL("redirect_uri", uri)).Want(http.StatusOK)
	}
	twice := a.Params()
	twice.Add("redirect_uri", "https://evil.example.com/")
	f.Browser().Get(f.URL + "/authorize?" + twice.Encode()).Want(http.StatusBadRequest)
	code := a.Code("redirect_uri", "http://127.0.0.1:43210/cb")
	a.Redeem(code).WantRefused(oauth.InvalidGrant)                             // the redirect_uri is another one
	f.Browser().Get(f.NewApp(`{}`).AuthorizeURL()).Want(http.StatusBadRequest) // it has registered none
	unknown := &providertest.App{Fixture: f, ID: "oac_01h00000000000000000000000"}
	f.Browser().Get(unknown.AuthorizeURL()).Want(http.StatusBadRequest)
}

// TestUnknownParametersAreIgnored includes repeated ones, and names that this server uses in its
// own forms.
func TestUnknownParametersAreIgnored(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	unknown := url.Values{
		"flow": {"x"}, "csrf": {"a", "b"}, "action": {"deny"}, "utm_source": {"1", "2"}, "client_secret": {"s"},
		"latin1": {"\xff"}, "large": {strings.Repeat("x", 10_000)},
	}
	sent := a.Params()
	for name, values := range unknown {
		sent[name] = values
	}
	b := f.Browser()
	if got := b.Complete(b.Get(f.URL + "/authorize?" + sent.Encode())); got.Get("code") == "" ||
		got.Get("state") != "xyz" {
		t.Errorf("GET: %v", got)
	}
	if got := b.Complete(b.Do("POST", f.URL+"/authorize", sent)); got.Get("code") == "" {
		t.Errorf("POST: %v", got)
	}
	sent.Set("client_secret", a.Secret)
	pushed := f.Browser().Do("POST", f.URL+"/par", sent).Want(http.StatusCreated).Text("request_uri")
	at := url.Values{"client_id": {a.ID}, "request_uri": {pushed}, "flow": {"y", "z"}}
	got := b.Complete(b.Get(f.URL + "/authorize?" + at.Encode()))
	if got.Get("code") == "" {
		t.Errorf("pushed: %v", got)
	}
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {got.Get("code")}, "redirect_uri": {providertest.Callback},
		"code_verifier": {providertest.Verifier}, "client_id": {a.ID}, "client_secret": {a.Secret}, "flow": {"x", "y"},
	}
	f.Browser().Do("POST", f.URL+"/oauth/token", form).Want(http.StatusOK)

	for _, name := range []string{
		"scope", "state", "nonce", "response_type", "response_mode", "prompt", "max_age", "login_hint",
		"code_challenge", "id_token_hint",
	} {
		twice := a.Params()
		twice.Add(name, "1")
		twice.Add(name, "1")
		got := b.Get(f.URL + "/authorize?" + twice.Encode()).Location()
		if got.Get("error") != oauth.InvalidRequest || !strings.Contains(got.Get("error_description"), name) {
			t.Errorf("%s repeated: %v", name, got)
		}
	}
}
