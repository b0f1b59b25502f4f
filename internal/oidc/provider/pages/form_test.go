package pages_test

import (
	"net/http"
	"net/url"
	"testing"

	"steward/internal/oidc/provider/providertest"
)

// TestConsentIsProtectedAgainstCSRF sends the consent form without a token, with that of another
// browser, and from another site.
func TestConsentIsProtectedAgainstCSRF(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	b := f.Browser()
	page := b.SignIn(b.Get(a.AuthorizeURL())).Want(http.StatusOK)
	_, action, values := page.Form()
	send := func(change func(url.Values), headers ...string) {
		t.Helper()
		forged := url.Values{}
		for name, v := range values {
			forged[name] = v
		}
		change(forged)
		r := b.Do("POST", f.URL+action, forged, headers...)
		if r.Status != http.StatusForbidden || r.Header.Get("Location") != "" {
			t.Errorf("got %d, Location %q", r.Status, r.Header.Get("Location"))
		}
	}
	send(func(v url.Values) { v.Del("csrf") })
	send(func(v url.Values) { v.Set("csrf", "x") })
	other := f.Browser()
	_, _, others := other.Get(a.AuthorizeURL()).Form()
	send(func(v url.Values) { v.Set("csrf", others.Get("csrf")) })
	send(func(url.Values) {}, "Sec-Fetch-Site", "cross-site")
	send(func(url.Values) {}, "Origin", "https://evil.example.com")
	if given, err := f.Clients.Store.Consent(t.Context(), a.ID, f.UserID); err != nil || given != nil {
		t.Fatalf("a consent was stored: %v %v", given, err)
	}
	// The page of one user is not the consent of another one who has signed in since.
	another := f.NewUser("other@example.com", "another password")
	again := b.Get(a.AuthorizeURL("prompt", "login"))
	b.Follow(b.Submit(again, "email", "other@example.com", "password", "another password")).Want(http.StatusOK)
	b.Do("POST", f.URL+action, values).Want(http.StatusOK)
	for _, userID := range []string{f.UserID, another} {
		if given, err := f.Clients.Store.Consent(t.Context(), a.ID, userID); err != nil || given != nil {
			t.Fatalf("a consent was stored: %v %v", given, err)
		}
	}
	// On plain HTTP off loopback a browser sends no Sec-Fetch-Site, but the origin.
	own := b.Follow(b.Get(a.AuthorizeURL())).Want(http.StatusOK)
	_, action, values = own.Form()
	b.Do("POST", f.URL+action, values, "Origin", "null").Want(http.StatusForbidden)
	b.Do("POST", f.URL+action, values, "Origin", f.URL).Want(http.StatusSeeOther)
}
