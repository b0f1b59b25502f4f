package links_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

// TestResetDoesNotBypassTheSecondFactor resets the password of a user who has an authenticator app.
func TestResetDoesNotBypassTheSecondFactor(t *testing.T) {
	f := providertest.OnSQLite(t)
	app := f.OwnersApp()
	link := f.NewReset()
	b := f.Browser()
	asked := b.Submit(b.Get(link), "password", "a second password").Want(http.StatusOK)
	if !asked.IsCode() || b.SessionCookie() != "" || b.SignedIn() {
		t.Fatalf("the link has signed in: %s", asked.Body)
	}
	b.Get(link).Want(http.StatusNotFound)
	other := f.Browser()
	other.Submit(other.Get(f.URL+"/account"), "email", providertest.OwnerEmail, "password", providertest.OwnerPassword).
		Want(http.StatusBadRequest)
	again := other.Submit(other.Get(f.URL+"/account"), "email", providertest.OwnerEmail, "password", "a second password")
	if !again.Want(http.StatusOK).IsCode() {
		t.Error("the new password is enough")
	}
	if b.Submit(asked, "code", app.Code()).Want(http.StatusSeeOther); !b.SignedIn() {
		t.Error("the code does not complete the sign-in")
	}
}

func TestResetReplacesThePasswordAndEndsEverythingElse(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		i := f.Issue()
		older := f.NewReset()
		link := f.NewReset()
		b := f.Browser()
		b.Get(older).Want(http.StatusNotFound)
		page := b.Get(link).Want(http.StatusOK)
		h := page.Header
		if h.Get("Referrer-Policy") != "same-origin" || h.Get("Cache-Control") != "no-store" ||
			strings.Count(page.Body, `name="password"`) != 1 {
			t.Errorf("got %v %s", h, page.Body)
		}
		for _, refused := range []string{"too short", "Password123!", providertest.OwnerEmail} {
			b.Submit(page, "password", refused).Want(http.StatusBadRequest)
		}
		done := b.Submit(page, "password", "a new password").Want(http.StatusSeeOther)
		if done.Header.Get("Location") != "/console/sign-in" || !b.SignedIn() {
			t.Error("the user is not signed in on the way to the console")
		}
		i.WantEnded(t)
		if i.Here.SignedIn() {
			t.Error("a session has survived")
		}
		used := b.Get(link).Want(http.StatusNotFound)
		if strings.Contains(used.Body, providertest.OwnerEmail) {
			t.Error("a used link reveals the email address")
		}
		b.Submit(page, "password", "a third password").Want(http.StatusNotFound)
		other := f.Browser()
		other.Submit(other.Get(f.URL+"/account"), "email", providertest.OwnerEmail,
			"password", providertest.OwnerPassword).Want(http.StatusBadRequest)
		other.Submit(other.Get(f.URL+"/account"), "email", providertest.OwnerEmail, "password", "a new password").
			Want(http.StatusSeeOther)
	})
}

// TestResetInABrowserWithASession checks that the session of the same browser ends too: its grants must
// not go on in the new one.
func TestResetInABrowserWithASession(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	b := f.Browser()
	code := b.Complete(b.Get(a.AuthorizeURL("scope", "openid"))).Get("code")
	tokens := a.Redeem(code).Want(http.StatusOK).JSON()
	before := b.SessionID()
	b.Submit(b.Get(f.NewReset()), "password", "a new password").Want(http.StatusSeeOther)
	if after := b.SessionID(); after == before {
		t.Error("the session goes on")
	}
	a.Refresh(tokens["refresh_token"].(string)).WantRefused(oauth.InvalidGrant)
	a.WantInvalid(tokens["access_token"], "of the previous session")
}

func TestResetLinksExpire(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		link := f.NewReset()
		b := f.Browser()
		page := b.Get(link).Want(http.StatusOK)
		f.Clock.Add(time.Hour)
		b.Get(link).Want(http.StatusNotFound)
		b.Submit(page, "password", "a new password").Want(http.StatusNotFound)
	})
}

func TestChangedPasswordVoidsTheLink(t *testing.T) {
	f := providertest.OnSQLite(t)
	link := f.NewReset()
	b := f.Browser()
	mine := b.SignIn(b.Get(f.URL + "/account"))
	b.Submit(mine, "password", providertest.OwnerPassword, "new_password", "a new password").Want(http.StatusOK)
	b.Get(link).Want(http.StatusNotFound)
}

func TestWrongLinksAreThrottled(t *testing.T) {
	f := providertest.OnSQLite(t)
	b := f.Browser()
	link := f.NewReset()
	for range 100 {
		b.Get(link).Want(http.StatusOK) // a valid one is not counted
	}
	statuses := map[int]int{}
	for range 40 {
		r := b.Get(f.URL + "/reset/unknown")
		statuses[r.Status]++
		if r.Status == http.StatusTooManyRequests && r.Header.Get("Retry-After") == "" {
			t.Fatal("no Retry-After")
		}
	}
	if statuses[http.StatusNotFound] != 30 || statuses[http.StatusTooManyRequests] != 10 {
		t.Errorf("got %v", statuses)
	}
}
