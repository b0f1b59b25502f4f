package authorize_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
	paging "steward/internal/page"
)

// TestPromptMaxAgeAndHintAreHonoured also checks that prompt=none never shows a page.
func TestPromptMaxAgeAndHintAreHonoured(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	b := f.Browser()
	wantRedirect := func(r *providertest.Response, code string) {
		t.Helper()
		u, err := url.Parse(r.Want(http.StatusSeeOther).Header.Get("Location"))
		providertest.Must(t, err)
		if got := u.Query(); got.Get("error") != code || got.Get("state") != "xyz" || got.Get("iss") != f.URL {
			t.Fatalf("got %v, want %s", got, code)
		}
	}
	wantRedirect(b.Get(a.AuthorizeURL("prompt", "none")), "login_required")
	tokens := a.Redeem(b.Complete(b.Get(a.AuthorizeURL())).Get("code")).Want(http.StatusOK).JSON()
	wantRedirect(b.Get(a.AuthorizeURL("prompt", "none", "scope", "openid webhook:read")), "consent_required")
	wantRedirect(b.Get(a.AuthorizeURL("prompt", "none login")), oauth.InvalidRequest)
	b.Get(a.AuthorizeURL("prompt", "none", "id_token_hint", tokens["id_token"].(string))).
		Want(http.StatusSeeOther)

	f.Clock.Add(time.Minute)
	wantRedirect(b.Get(a.AuthorizeURL("prompt", "none", "max_age", "30")), "login_required")
	b.Get(a.AuthorizeURL("max_age", "300")).Want(http.StatusSeeOther)
	for _, pairs := range [][]string{{"max_age", "30"}, {"prompt", "login"}, {"max_age", "0"}} {
		page := b.Get(a.AuthorizeURL(pairs...)).Want(http.StatusOK)
		if !strings.Contains(page.Body, `name="password"`) {
			t.Fatalf("%v shows no sign-in page", pairs)
		}
		if b.Complete(page).Get("code") == "" {
			t.Fatalf("%v: no code after signing in again", pairs)
		}
		f.Clock.Add(time.Minute)
	}
	hinted := b.Get(a.AuthorizeURL("prompt", "login", "login_hint", "someone@example.com")).Want(http.StatusOK)
	if !strings.Contains(hinted.Body, `value="someone@example.com"`) {
		t.Fatal("login_hint is not filled in")
	}
	f.NewUser("other@example.com", "another password")
	other := f.Browser()
	page := other.Get(a.AuthorizeURL("id_token_hint", tokens["id_token"].(string)))
	result := other.CompleteAs(page, "other@example.com", "another password")
	if result.Get("error") != "login_required" {
		t.Fatalf("a user who is not that of the hint got %v", result)
	}
}

// setRedirects replaces the redirect URIs of a client.
func setRedirects(a *providertest.App, uris ...string) {
	a.Fixture.T.Helper()
	a.Update(oidc.ClientPatch{Settings: oidc.Settings{RedirectURIs: paging.Some(uris)}})
}

// silent returns the result of a request with prompt=none for a redirect URI: "code", or the error.
func silent(b *providertest.Browser, a *providertest.App, uri string) string {
	b.Fixture.T.Helper()
	got := b.Get(a.AuthorizeURL("redirect_uri", uri, "prompt", "none")).Location()
	if got.Get("code") != "" {
		return "code"
	}
	return got.Get("error")
}

// wantAsked requires that a user who is signed in is asked for consent at a redirect URI.
func wantAsked(b *providertest.Browser, a *providertest.App, uri string) *providertest.Response {
	b.Fixture.T.Helper()
	page := b.Get(a.AuthorizeURL("redirect_uri", uri)).Want(http.StatusOK)
	if !page.Asks("openid") || !page.Asks("email") {
		b.Fixture.T.Fatalf("%s: the page does not list the scopes: %s", uri, page.Body)
	}
	if got := silent(b, a, uri); got != oauth.ConsentRequired {
		b.Fixture.T.Fatalf("%s: prompt=none: got %q", uri, got)
	}
	return page
}

// TestConsentDoesNotCoverANewerRedirectURI lets an admin add a redirect URI and rotate the secret, with
// which the codes of users could be taken without a page. The clock stands still, so that no difference
// in time tells what is newer.
func TestConsentDoesNotCoverANewerRedirectURI(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		const added = "https://evil.example.com/callback"
		a, owner, guest := f.NewApp(providertest.Confidential), f.Browser(), f.Browser()
		owner.Complete(owner.Get(a.AuthorizeURL()))
		f.NewUser("guest@example.com", "guest password") // of another organization
		guest.CompleteAs(guest.Get(a.AuthorizeURL()), "guest@example.com", "guest password")

		setRedirects(a, providertest.Callback, added)
		a.RotateSecret()
		for _, b := range []*providertest.Browser{owner, guest} {
			if got := silent(b, a, providertest.Callback); got != "code" {
				t.Fatalf("the redirect URI of before: %s", got)
			}
			wantAsked(b, a, added)
		}
		// A renewed consent covers the URI from then on, for that user only.
		if got := owner.Submit(wantAsked(owner, a, added)).Location(); got.Get("code") == "" {
			t.Fatalf("after the consent: %v", got)
		}
		a.RotateSecret()
		if got := silent(owner, a, added); got != "code" {
			t.Errorf("a rotated secret alone asks again: %s", got)
		}
		wantAsked(guest, a, added)

		// A URI that was removed and added again is newer.
		setRedirects(a, providertest.Callback)
		setRedirects(a, added, providertest.Callback)
		wantAsked(owner, a, added)
		if got := silent(owner, a, providertest.Callback); got != "code" {
			t.Errorf("the redirect URI of before, in another place of the list: %s", got)
		}
		// Declining sends no code and changes nothing.
		denied := owner.Submit(wantAsked(owner, a, added), "action", "deny").Location()
		if denied.Get("error") != oauth.AccessDenied {
			t.Errorf("declined: %v", denied)
		}
		wantAsked(owner, a, added)
	})
}

func TestLoopbackPortsAreNotNewerRedirectURIs(t *testing.T) {
	f := providertest.OnSQLite(t)
	const v4, v6 = "http://127.0.0.1/cb", "http://[::1]/cb"
	a, b := f.NewApp(providertest.Confidential), f.Browser()
	setRedirects(a, v4)
	b.Complete(b.Get(a.AuthorizeURL("redirect_uri", v4)))
	setRedirects(a, v4, "http://127.0.0.1:5000/cb", v6)
	for _, uri := range []string{v4, "http://127.0.0.1:4711/cb", "http://127.0.0.1:5000/cb"} {
		if got := silent(b, a, uri); got != "code" {
			t.Errorf("%s: %s", uri, got)
		}
	}
	page := wantAsked(b, a, "http://[::1]:4711/cb")
	b.Submit(page).Want(http.StatusSeeOther)
	if got := silent(b, a, "http://[::1]:4712/cb"); got != "code" {
		t.Errorf("another port after the consent: %s", got)
	}
}

// TestConsentsOfEarlierVersionsCoverTheirRedirectURIs gives a client and a consent what the migration
// gives to rows of before.
func TestConsentsOfEarlierVersionsCoverTheirRedirectURIs(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		const added = "https://rp.example.com/new"
		a, b := f.NewApp(providertest.Confidential), f.Browser()
		b.Complete(b.Get(a.AuthorizeURL()))
		providertest.Must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
			if _, err := tx.Exec(`UPDATE oidc_clients SET redirects_since = '{}'`); err != nil {
				return err
			}
			if _, err := tx.Exec(`UPDATE oidc_consents SET client_version = 0`); err != nil {
				return err
			}
			return tx.Invalidate(oidc.Cache)
		}))
		if got := silent(b, a, providertest.Callback); got != "code" {
			t.Errorf("its redirect URI: %s", got)
		}
		setRedirects(a, providertest.Callback, added)
		if got := silent(b, a, providertest.Callback); got != "code" {
			t.Errorf("its redirect URI, after another one was added: %s", got)
		}
		wantAsked(b, a, added)
	})
}
