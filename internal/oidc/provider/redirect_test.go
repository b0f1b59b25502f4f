package provider

import (
	"net/http"
	"testing"

	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	paging "steward/internal/page"
)

// setRedirects replaces the redirect URIs of a client.
func (a *app) setRedirects(uris ...string) {
	a.f.t.Helper()
	a.update(oidc.ClientPatch{Settings: oidc.Settings{RedirectURIs: paging.Some(uris)}})
}

// rotateSecret replaces the secret of a client.
func (a *app) rotateSecret() {
	a.f.t.Helper()
	rotated, err := a.f.clients.RotateSecret(a.f.ctx, &oidc.ClientPath{ID: a.id})
	must(a.f.t, err)
	a.secret = rotated.ClientSecret
}

// silent returns the result of a request with prompt=none for a redirect URI: "code", or the error.
func (b *browser) silent(a *app, uri string) string {
	b.f.t.Helper()
	got := b.get(a.authorizeURL("redirect_uri", uri, "prompt", "none")).location()
	if got.Get("code") != "" {
		return "code"
	}
	return got.Get("error")
}

// wantAsked requires that a user who is signed in is asked for consent at a redirect URI.
func (b *browser) wantAsked(a *app, uri string) *response {
	b.f.t.Helper()
	page := b.get(a.authorizeURL("redirect_uri", uri)).want(http.StatusOK)
	if !page.asks("openid") || !page.asks("email") {
		b.f.t.Fatalf("%s: the page does not list the scopes: %s", uri, page.body)
	}
	if got := b.silent(a, uri); got != oauth.ConsentRequired {
		b.f.t.Fatalf("%s: prompt=none: got %q", uri, got)
	}
	return page
}

// TestConsentDoesNotCoverANewerRedirectURI lets an admin add a redirect URI and rotate the secret, with
// which the codes of users could be taken without a page. The clock stands still, so that no difference
// in time tells what is newer.
func TestConsentDoesNotCoverANewerRedirectURI(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		const added = "https://evil.example.com/callback"
		a, owner, guest := f.newApp(confidential), f.browser(), f.browser()
		owner.complete(owner.get(a.authorizeURL()))
		f.newUser("guest@example.com", "guest password") // of another organization
		guest.completeAs(guest.get(a.authorizeURL()), "guest@example.com", "guest password")

		a.setRedirects(callback, added)
		a.rotateSecret()
		for _, b := range []*browser{owner, guest} {
			if got := b.silent(a, callback); got != "code" {
				t.Fatalf("the redirect URI of before: %s", got)
			}
			b.wantAsked(a, added)
		}
		// A renewed consent covers the URI from then on, for that user only.
		if got := owner.submit(owner.wantAsked(a, added)).location(); got.Get("code") == "" {
			t.Fatalf("after the consent: %v", got)
		}
		a.rotateSecret()
		if got := owner.silent(a, added); got != "code" {
			t.Errorf("a rotated secret alone asks again: %s", got)
		}
		guest.wantAsked(a, added)

		// A URI that was removed and added again is newer.
		a.setRedirects(callback)
		a.setRedirects(added, callback)
		owner.wantAsked(a, added)
		if got := owner.silent(a, callback); got != "code" {
			t.Errorf("the redirect URI of before, in another place of the list: %s", got)
		}
		// Declining sends no code and changes nothing.
		denied := owner.submit(owner.wantAsked(a, added), "action", "deny").location()
		if denied.Get("error") != oauth.AccessDenied {
			t.Errorf("declined: %v", denied)
		}
		owner.wantAsked(a, added)
	})
}

func TestLoopbackPortsAreNotNewerRedirectURIs(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		const v4, v6 = "http://127.0.0.1/cb", "http://[::1]/cb"
		a, b := f.newApp(confidential), f.browser()
		a.setRedirects(v4)
		b.complete(b.get(a.authorizeURL("redirect_uri", v4)))
		a.setRedirects(v4, "http://127.0.0.1:5000/cb", v6)
		for _, uri := range []string{v4, "http://127.0.0.1:4711/cb", "http://127.0.0.1:5000/cb"} {
			if got := b.silent(a, uri); got != "code" {
				t.Errorf("%s: %s", uri, got)
			}
		}
		page := b.wantAsked(a, "http://[::1]:4711/cb")
		b.submit(page).want(http.StatusSeeOther)
		if got := b.silent(a, "http://[::1]:4712/cb"); got != "code" {
			t.Errorf("another port after the consent: %s", got)
		}
	})
}

// TestConsentsOfEarlierVersionsCoverTheirRedirectURIs gives a client and a consent what the migration
// gives to rows of before.
func TestConsentsOfEarlierVersionsCoverTheirRedirectURIs(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		const added = "https://rp.example.com/new"
		a, b := f.newApp(confidential), f.browser()
		b.complete(b.get(a.authorizeURL()))
		must(t, f.db.Write(t.Context(), func(tx *db.Tx) error {
			if _, err := tx.Exec(`UPDATE oidc_clients SET redirects_since = '{}'`); err != nil {
				return err
			}
			if _, err := tx.Exec(`UPDATE oidc_consents SET client_version = 0`); err != nil {
				return err
			}
			return tx.Invalidate(oidc.Cache)
		}))
		if got := b.silent(a, callback); got != "code" {
			t.Errorf("its redirect URI: %s", got)
		}
		a.setRedirects(callback, added)
		if got := b.silent(a, callback); got != "code" {
			t.Errorf("its redirect URI, after another one was added: %s", got)
		}
		b.wantAsked(a, added)
	})
}

// TestDevicePageListsAllScopes connects a second device, which gets what was granted to the first one.
func TestDevicePageListsAllScopes(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a, b := f.newApp(public), f.browser()
		for _, device := range []string{"first", "second"} {
			d := a.post("/device_authorization", "scope", "openid email offline_access").want(http.StatusOK)
			page := b.get(d.text("verification_uri_complete"))
			if device == "first" {
				page = b.signIn(page)
			}
			for _, scope := range []string{"openid", "email", "offline_access"} {
				if !page.asks(scope) {
					t.Errorf("the page of the %s device does not list %s: %s", device, scope, page.body)
				}
			}
			b.submit(page).want(http.StatusOK)
			got := a.post("/oauth/token", "grant_type", oidc.DeviceCode, "device_code", d.text("device_code"))
			if got.want(http.StatusOK).text("scope") != "openid email offline_access" {
				t.Errorf("the %s device gets %s", device, got.body)
			}
		}
	})
}

func TestEmailIsNotVerified(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		for scope, want := range map[string]any{"openid email": false, "openid profile": nil} {
			tokens := a.tokens("scope", scope)
			info := f.userinfo(tokens["access_token"].(string)).want(http.StatusOK).json()
			for where, got := range map[string]map[string]any{"ID token": claims(t, tokens["id_token"]), "userinfo": info} {
				verified, present := got["email_verified"]
				if verified != want || present != (want != nil) {
					t.Errorf("%s with %s: %v", where, scope, got)
				}
			}
		}
		supported, _ := f.browser().get(f.url + "/.well-known/openid-configuration").json()["claims_supported"].([]any)
		for _, claim := range supported {
			if claim == "email_verified" {
				return
			}
		}
		t.Errorf("claims_supported: %v", supported)
	})
}
