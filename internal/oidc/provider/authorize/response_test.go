package authorize_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

func TestDeclinedConsentIsReportedToTheClient(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	b := f.Browser()
	page := b.SignIn(b.Get(a.AuthorizeURL())).Want(http.StatusOK)
	result := b.Complete(b.Submit(page, "action", "deny"))
	if result.Get("error") != oauth.AccessDenied || result.Get("code") != "" {
		t.Fatalf("got %v", result)
	}
}

// TestFormPost gets a code and errors as forms.
func TestFormPost(t *testing.T) {
	f := providertest.OnSQLite(t)
	const uri = "https://rp.example.com/callback?tenant=a%20b&x=;,"
	a := f.NewApp(strings.ReplaceAll(providertest.Confidential, providertest.Callback, uri))
	const state = `x"><script>alert(1)</script>`
	formPost := []string{"redirect_uri", uri, "response_mode", "form_post", "state", state}
	at := func(pairs ...string) string { return a.AuthorizeURL(slices.Concat(formPost, pairs)...) }
	b := f.Browser()
	consent := b.SignIn(b.Get(at())).Want(http.StatusOK)
	page := b.Submit(consent).Want(http.StatusOK)
	method, action, values := page.Form()
	if method != "POST" || action != uri || values.Get("state") != state || values.Get("iss") != f.URL ||
		values.Get("error") != "" || len(values) != 3 {
		t.Fatalf("%s %s %v", method, action, values)
	}
	if strings.Contains(page.Body, "<script>alert") || strings.Count(page.Body, "<script>") != 1 ||
		!strings.Contains(page.Body, "<noscript>") {
		t.Error(page.Body)
	}
	policy := page.Header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "script-src 'sha256-") || !strings.Contains(policy, "; form-action https:") ||
		!strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") ||
		page.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", page.Header)
	}
	a.Post("/oauth/token", "grant_type", "authorization_code", "code", values.Get("code"), "redirect_uri", uri,
		"code_verifier", providertest.Verifier).Want(http.StatusOK)

	for name, r := range map[string]*providertest.Response{
		oauth.AccessDenied:   b.Submit(b.Get(at("prompt", "consent")), "action", "deny"),
		oauth.LoginRequired:  f.Browser().Get(at("prompt", "none")),
		oauth.InvalidRequest: f.Browser().Get(at("code_challenge_method", "plain")),
		oauth.InvalidScope:   f.Browser().Get(at("scope", "none:known")),
	} {
		_, action, values := r.Want(http.StatusOK).Form()
		if action != uri || values.Get("error") != name || values.Get("error_description") == "" ||
			values.Get("state") != state || values.Get("iss") != f.URL || values.Get("code") != "" {
			t.Errorf("%s: %s %v", name, action, values)
		}
	}
	if got := b.Get(at("response_mode", "fragment")).Location(); got.Get("error") != oauth.InvalidRequest {
		t.Errorf("fragment: %v", got)
	}
	if got := b.Get(at("response_mode", "query")).Location(); got.Get("code") == "" ||
		got.Get("tenant") != "a b" {
		t.Errorf("query: %v", got)
	}
	// A form cannot be sent to an application with a private-use scheme.
	native := f.NewApp(strings.ReplaceAll(providertest.Public, providertest.Callback, "com.example.app:/cb"))
	got := b.Get(native.AuthorizeURL("redirect_uri", "com.example.app:/cb", "response_mode", "form_post")).
		Location()
	if got.Get("error") != oauth.InvalidRequest {
		t.Errorf("private-use scheme: %v", got)
	}
	if b.Get(at("redirect_uri", "https://evil.example.com/")).Status != http.StatusBadRequest {
		t.Error("an unregistered redirect URI gets a form")
	}
	if !strings.Contains(b.Get(f.URL+"/.well-known/openid-configuration").Body,
		`"response_modes_supported":["query","form_post"]`) {
		t.Error("the metadata does not list form_post")
	}
}
