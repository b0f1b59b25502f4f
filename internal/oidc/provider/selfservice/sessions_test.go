package selfservice_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

func TestUsersSeeAndEndTheirOwnSessionsOnly(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		here, there, stranger := f.Browser(), f.Browser(), f.Browser()
		here.Complete(here.Get(a.AuthorizeURL("scope", "openid")))
		tokens := a.Redeem(there.Complete(there.Get(a.AuthorizeURL("scope", "openid"))).Get("code")).
			Want(http.StatusOK)
		f.NewUser("other@example.com", "another password")
		stranger.CompleteAs(stranger.Get(a.AuthorizeURL("scope", "openid")), "other@example.com", "another password")

		list := here.Get(f.URL + "/account").Want(http.StatusOK)
		if got := strings.Count(list.Body, `name="session"`); got != 2 {
			t.Fatalf("%d sessions are listed", got)
		}
		mine, elsewhere := here.SessionID(), there.SessionID()
		if !strings.Contains(list.Body, elsewhere) || strings.Contains(list.Body, stranger.SessionID()) {
			t.Error("the list does not have exactly the sessions of the user")
		}
		signedIn := func(b *providertest.Browser) bool {
			location := b.Get(a.AuthorizeURL("scope", "openid", "prompt", "none")).Header.Get("Location")
			return !strings.Contains(location, "login_required")
		}
		stranger.Post("/account/sessions", "session", mine)
		if !signedIn(here) {
			t.Fatal("another user has ended the session")
		}
		here.Post("/account/sessions", "session", elsewhere).Want(http.StatusSeeOther)
		if signedIn(there) || !signedIn(here) {
			t.Error("another session than the named one has ended")
		}
		a.Refresh(tokens.Text("refresh_token")).WantRefused(oauth.InvalidGrant) // without offline access
		here.Post("/account/sessions", "session", mine).Want(http.StatusOK)
		if signedIn(here) {
			t.Error("the current session has not ended")
		}
	})
}

func TestAccountFormsRequireASession(t *testing.T) {
	f := providertest.OnSQLite(t)
	for _, path := range []string{
		"/account/password", "/account/profile", "/account/sessions", "/account/sign-out", "/account/apps", "/account/keys",
		"/account/keys/delete", "/account/email", "/account/email/token",
	} {
		b := f.Browser()
		if r := b.Post(path, "org", f.OrgID).Want(http.StatusOK); !strings.Contains(r.Body, `action="/sign-in"`) {
			t.Errorf("%s: %s", path, r.Body)
		}
		b.Do("POST", f.URL+path, url.Values{}).Want(http.StatusForbidden) // without the token of a form
	}
}

func TestChangedPasswordEndsEverythingElse(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		i := f.Issue()
		code := i.Here.Complete(i.Here.Get(i.Web.AuthorizeURL("scope", "openid"))).Get("code")
		own := i.Web.Redeem(code).Want(http.StatusOK).JSON()
		mine := i.Here.Get(f.URL + "/account")
		i.Here.Submit(mine, "password", providertest.OwnerPassword, "new_password", "a new password").
			Want(http.StatusOK)
		i.WantEnded(t)
		if !i.Here.SignedIn() {
			t.Error("the current session has ended")
		}
		i.Web.Refresh(own["refresh_token"].(string)).Want(http.StatusOK)
	})
}

func TestSignOutEverywhereEndsDeviceGrantsToo(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		i := f.Issue()
		stranger := f.Browser()
		f.NewUser("other@example.com", "another password")
		stranger.Follow(stranger.Submit(stranger.Get(f.URL+"/account"), "email", "other@example.com",
			"password", "another password"))
		_, _, values := i.Here.Get(f.URL + "/account").Form()
		page := i.Here.Do("POST", f.URL+"/account/sign-out", values).Want(http.StatusOK)
		if !strings.Contains(page.Body, "signed out everywhere") {
			t.Errorf("got %s", page.Body)
		}
		i.WantEnded(t)
		if i.Here.SignedIn() || !stranger.SignedIn() {
			t.Error("the current session goes on, or that of another user has ended")
		}
	})
}
