package provider

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"steward/internal/oidc/provider/oauth"
)

// location returns the parameters of a redirect to the client.
func (r *response) location() url.Values {
	r.t.Helper()
	u, err := url.Parse(r.want(http.StatusSeeOther).header.Get("Location"))
	must(r.t, err)
	return u.Query()
}

// TestUnknownParametersAreIgnored includes repeated ones, and names that this server uses in its
// own forms.
func TestUnknownParametersAreIgnored(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		unknown := url.Values{
			"flow": {"x"}, "csrf": {"a", "b"}, "action": {"deny"}, "utm_source": {"1", "2"}, "client_secret": {"s"},
			"latin1": {"\xff"}, "large": {strings.Repeat("x", 10_000)},
		}
		sent := a.params()
		for name, values := range unknown {
			sent[name] = values
		}
		b := f.browser()
		if got := b.complete(b.get(f.url + "/authorize?" + sent.Encode())); got.Get("code") == "" || got.Get("state") != "xyz" {
			t.Errorf("GET: %v", got)
		}
		if got := b.complete(b.do("POST", f.url+"/authorize", sent)); got.Get("code") == "" {
			t.Errorf("POST: %v", got)
		}
		sent.Set("client_secret", a.secret)
		pushed := f.browser().do("POST", f.url+"/par", sent).want(http.StatusCreated).text("request_uri")
		at := url.Values{"client_id": {a.id}, "request_uri": {pushed}, "flow": {"y", "z"}}
		got := b.complete(b.get(f.url + "/authorize?" + at.Encode()))
		if got.Get("code") == "" {
			t.Errorf("pushed: %v", got)
		}
		form := url.Values{
			"grant_type": {"authorization_code"}, "code": {got.Get("code")}, "redirect_uri": {callback},
			"code_verifier": {verifier}, "client_id": {a.id}, "client_secret": {a.secret}, "flow": {"x", "y"},
		}
		f.browser().do("POST", f.url+"/oauth/token", form).want(http.StatusOK)

		for _, name := range []string{
			"scope", "state", "nonce", "response_type", "response_mode", "prompt", "max_age", "login_hint",
			"code_challenge", "id_token_hint",
		} {
			twice := a.params()
			twice.Add(name, "1")
			twice.Add(name, "1")
			got := b.get(f.url + "/authorize?" + twice.Encode()).location()
			if got.Get("error") != oauth.InvalidRequest || !strings.Contains(got.Get("error_description"), name) {
				t.Errorf("%s repeated: %v", name, got)
			}
		}
	})
}

// TestFlowIsAcceptedOnItsOwnPathOnly presents a genuine flow as a parameter of a client.
func TestFlowIsAcceptedOnItsOwnPathOnly(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a, other := f.newApp(confidential), f.newApp(confidential)
		b := f.browser()
		_, _, values := b.get(other.authorizeURL()).form()
		b.signIn(b.get(a.authorizeURL()))
		page := b.get(a.authorizeURL("flow", values.Get("flow"), "prompt", "none"))
		if got := page.location(); got.Get("error") != oauth.ConsentRequired || got.Get("state") != "xyz" {
			t.Errorf("got %v", got)
		}
		b.get(f.url + "/authorize/continue?flow=" + values.Get("flow")).want(http.StatusOK)
		b.get(f.url + "/authorize/continue?flow=x").want(http.StatusBadRequest)
		b.get(f.url + "/authorize/continue").want(http.StatusBadRequest)
	})
}

// TestFormPost gets a code and errors as forms.
func TestFormPost(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		const uri = "https://rp.example.com/callback?tenant=a%20b&x=;,"
		a := f.newApp(strings.ReplaceAll(confidential, callback, uri))
		const state = `x"><script>alert(1)</script>`
		formPost := []string{"redirect_uri", uri, "response_mode", "form_post", "state", state}
		at := func(pairs ...string) string { return a.authorizeURL(slices.Concat(formPost, pairs)...) }
		b := f.browser()
		consent := b.signIn(b.get(at())).want(http.StatusOK)
		page := b.submit(consent).want(http.StatusOK)
		method, action, values := page.form()
		if method != "POST" || action != uri || values.Get("state") != state || values.Get("iss") != f.url ||
			values.Get("error") != "" || len(values) != 3 {
			t.Fatalf("%s %s %v", method, action, values)
		}
		if strings.Contains(page.body, "<script>alert") || strings.Count(page.body, "<script>") != 1 ||
			!strings.Contains(page.body, "<noscript>") {
			t.Error(page.body)
		}
		policy := page.header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "script-src 'sha256-") || !strings.Contains(policy, "; form-action https:") ||
			!strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") ||
			page.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%v", page.header)
		}
		a.post("/oauth/token", "grant_type", "authorization_code", "code", values.Get("code"), "redirect_uri", uri,
			"code_verifier", verifier).want(http.StatusOK)

		for name, r := range map[string]*response{
			oauth.AccessDenied:   b.submit(b.get(at("prompt", "consent")), "action", "deny"),
			oauth.LoginRequired:  f.browser().get(at("prompt", "none")),
			oauth.InvalidRequest: f.browser().get(at("code_challenge_method", "plain")),
			oauth.InvalidScope:   f.browser().get(at("scope", "none:known")),
		} {
			_, action, values := r.want(http.StatusOK).form()
			if action != uri || values.Get("error") != name || values.Get("error_description") == "" ||
				values.Get("state") != state || values.Get("iss") != f.url || values.Get("code") != "" {
				t.Errorf("%s: %s %v", name, action, values)
			}
		}
		if got := b.get(at("response_mode", "fragment")).location(); got.Get("error") != oauth.InvalidRequest {
			t.Errorf("fragment: %v", got)
		}
		if got := b.get(at("response_mode", "query")).location(); got.Get("code") == "" || got.Get("tenant") != "a b" {
			t.Errorf("query: %v", got)
		}
		// A form cannot be sent to an application with a private-use scheme.
		native := f.newApp(strings.ReplaceAll(public, callback, "com.example.app:/cb"))
		got := b.get(native.authorizeURL("redirect_uri", "com.example.app:/cb", "response_mode", "form_post")).location()
		if got.Get("error") != oauth.InvalidRequest {
			t.Errorf("private-use scheme: %v", got)
		}
		if b.get(at("redirect_uri", "https://evil.example.com/")).status != http.StatusBadRequest {
			t.Error("an unregistered redirect URI gets a form")
		}
		if !strings.Contains(b.get(f.url+"/.well-known/openid-configuration").body,
			`"response_modes_supported":["query","form_post"]`) {
			t.Error("the metadata does not list form_post")
		}
	})
}
