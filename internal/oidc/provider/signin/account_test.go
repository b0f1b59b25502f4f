package signin_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

var thisSession = regexp.MustCompile(`(?s)current</span><br>.*?name="session" value="([^"]+)"`)

// sessionID returns the session of a browser, which the account page marks.
func sessionID(b *providertest.Browser) string {
	b.Fixture.T.Helper()
	found := thisSession.FindStringSubmatch(b.Get(b.Fixture.URL + "/account").Want(http.StatusOK).Body)
	if found == nil {
		b.Fixture.T.Fatal("the account page does not mark the current session")
	}
	return found[1]
}

// endSession ends a session on the account page.
func endSession(b *providertest.Browser, sessionID string) *providertest.Response {
	b.Fixture.T.Helper()
	_, _, values := b.Get(b.Fixture.URL + "/account").Form()
	values.Set("session", sessionID)
	return b.Do("POST", b.Fixture.URL+"/account/sessions", values)
}

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
		mine, elsewhere := sessionID(here), sessionID(there)
		if !strings.Contains(list.Body, elsewhere) || strings.Contains(list.Body, sessionID(stranger)) {
			t.Error("the list does not have exactly the sessions of the user")
		}
		signedIn := func(b *providertest.Browser) bool {
			location := b.Get(a.AuthorizeURL("scope", "openid", "prompt", "none")).Header.Get("Location")
			return !strings.Contains(location, "login_required")
		}
		endSession(stranger, mine)
		if !signedIn(here) {
			t.Fatal("another user has ended the session")
		}
		endSession(here, elsewhere).Want(http.StatusSeeOther)
		if signedIn(there) || !signedIn(here) {
			t.Error("another session than the named one has ended")
		}
		a.Refresh(tokens.Text("refresh_token")).WantRefused(oauth.InvalidGrant) // without offline access
		endSession(here, mine).Want(http.StatusOK)
		if signedIn(here) {
			t.Error("the current session has not ended")
		}
	})
}

// post sends a form of the account page.
func post(b *providertest.Browser, path string, fields ...string) *providertest.Response {
	b.Fixture.T.Helper()
	_, _, own := b.Get(b.Fixture.URL + "/account").Form()
	values := url.Values{"csrf": {own.Get("csrf")}}
	for i := 0; i < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	return b.Do("POST", b.Fixture.URL+path, values)
}

func TestAccountFormsRequireASession(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		for _, path := range []string{
			"/account/password", "/account/profile", "/account/sessions", "/account/sign-out", "/account/apps", "/account/keys",
			"/account/keys/delete", "/account/email", "/account/email/token",
		} {
			b := f.Browser()
			if r := post(b, path, "org", f.OrgID).Want(http.StatusOK); !strings.Contains(r.Body, `action="/sign-in"`) {
				t.Errorf("%s: %s", path, r.Body)
			}
			b.Do("POST", f.URL+path, url.Values{}).Want(http.StatusForbidden) // without the token of a form
		}
	})
}

func TestUsersChangeTheirProfile(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		other := f.NewUser("other@example.com", "another password")
		b := signInAs(f.Browser(), providertest.OwnerEmail, providertest.OwnerPassword)
		post(b, "/account/profile", "first_name", "Ada", "photo_url", "http://a.example/p.png").
			Want(http.StatusBadRequest)
		post(b, "/account/profile", "first_name", "A\u202eda").Want(http.StatusBadRequest)
		post(b, "/account/profile", "first_name", " Ada ", "last_name", "Lovelace",
			"photo_url", "https://a.example/p.png").
			Want(http.StatusSeeOther)
		user, err := f.Accounts.LoginByID(t.Context(), f.UserID)
		providertest.Must(t, err)
		if user.FirstName != "Ada" || user.LastName != "Lovelace" || user.PhotoURL != "https://a.example/p.png" {
			t.Errorf("got %+v", user)
		}
		if got := b.Get(f.URL + "/account"); !strings.Contains(got.Body, `value="Lovelace"`) {
			t.Errorf("got %s", got.Body)
		}
		post(b, "/account/profile", "first_name", "Ada").Want(http.StatusSeeOther)
		user, err = f.Accounts.LoginByID(t.Context(), f.UserID)
		providertest.Must(t, err)
		if user.LastName != "" || user.PhotoURL != "" {
			t.Errorf("got %+v", user)
		}
		if user, err = f.Accounts.LoginByID(t.Context(), other); err != nil || user.FirstName != "" {
			t.Errorf("another user is %+v, %v", user, err)
		}
		entries := entries(f)
		if e := entries[len(entries)-1]; e.Action != "user.update" || *e.UserID != f.UserID {
			t.Errorf("the audit log has %+v", e)
		}
	})
}

func TestChangedPasswordEndsEverythingElse(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		i := issue(f)
		code := i.here.Complete(i.here.Get(i.web.AuthorizeURL("scope", "openid"))).Get("code")
		own := i.web.Redeem(code).Want(http.StatusOK).JSON()
		mine := i.here.Get(f.URL + "/account")
		i.here.Submit(mine, "password", providertest.OwnerPassword, "new_password", "a new password").
			Want(http.StatusOK)
		i.wantEnded(t)
		if !i.here.SignedIn() {
			t.Error("the current session has ended")
		}
		i.web.Refresh(own["refresh_token"].(string)).Want(http.StatusOK)
	})
}

func TestSignOutEverywhereEndsDeviceGrantsToo(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		i := issue(f)
		stranger := f.Browser()
		f.NewUser("other@example.com", "another password")
		stranger.Follow(stranger.Submit(stranger.Get(f.URL+"/account"), "email", "other@example.com",
			"password", "another password"))
		_, _, values := i.here.Get(f.URL + "/account").Form()
		page := i.here.Do("POST", f.URL+"/account/sign-out", values).Want(http.StatusOK)
		if !strings.Contains(page.Body, "signed out everywhere") {
			t.Errorf("got %s", page.Body)
		}
		i.wantEnded(t)
		if i.here.SignedIn() || !stranger.SignedIn() {
			t.Error("the current session goes on, or that of another user has ended")
		}
	})
}
