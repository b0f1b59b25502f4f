package signin_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

// newReset returns the address of a link with which the owner can set a new password.
func newReset(f *providertest.Fixture) string {
	f.T.Helper()
	var token string
	providertest.Must(f.T, f.DB.Write(f.Ctx, func(tx *db.Tx) (err error) {
		token, _, err = f.Accounts.NewReset(tx, f.UserID)
		return err
	}))
	return f.URL + "/reset/" + token
}

// device gets tokens with the device flow, approved in a browser of the owner.
func device(a *providertest.App, b *providertest.Browser) map[string]any {
	a.Fixture.T.Helper()
	started := a.Post("/device_authorization", "scope", "openid profile email offline_access").Want(http.StatusOK)
	page := b.Follow(b.Get(started.Text("verification_uri_complete"))).Want(http.StatusOK)
	b.Submit(page).Want(http.StatusOK)
	return a.Post("/oauth/token", "grant_type", "urn:ietf:params:oauth:grant-type:device_code",
		"device_code", started.Text("device_code")).Want(http.StatusOK).JSON()
}

// issued holds what a user has in four places: a session, and tokens of a session, offline and of a
// device.
type issued struct {
	web, public              *providertest.App
	here, there              *providertest.Browser
	session, offline, tokens map[string]any
}

func issue(f *providertest.Fixture) issued {
	f.T.Helper()
	i := issued{
		web: f.NewApp(providertest.Confidential), public: f.NewApp(providertest.Public),
		here: f.Browser(), there: f.Browser(),
	}
	i.here.SignIn(i.here.Get(f.URL + "/account"))
	code := i.there.Complete(i.there.Get(i.web.AuthorizeURL("scope", "openid"))).Get("code")
	i.session = i.web.Redeem(code).Want(http.StatusOK).JSON()
	code = i.here.Complete(i.here.Get(i.web.AuthorizeURL("scope", "openid offline_access"))).Get("code")
	i.offline = i.web.Redeem(code).Want(http.StatusOK).JSON()
	i.tokens = device(i.public, i.here)
	return i
}

// wantEnded requires that everything but the sessions of some browsers has ended.
func (i issued) wantEnded(t *testing.T) {
	t.Helper()
	if i.there.SignedIn() {
		t.Error("the other session has not ended")
	}
	i.web.Refresh(i.session["refresh_token"].(string)).WantRefused(oauth.InvalidGrant)
	i.web.Refresh(i.offline["refresh_token"].(string)).WantRefused(oauth.InvalidGrant)
	i.public.Refresh(i.tokens["refresh_token"].(string)).WantRefused(oauth.InvalidGrant)
	i.web.WantInvalid(i.session["access_token"], "of another session")
	i.web.WantInvalid(i.offline["access_token"], "offline")
	i.web.WantInvalid(i.tokens["access_token"], "of a device")
}

func TestResetReplacesThePasswordAndEndsEverythingElse(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		i := issue(f)
		older := newReset(f)
		link := newReset(f)
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
		i.wantEnded(t)
		if i.here.SignedIn() {
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
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		b := f.Browser()
		code := b.Complete(b.Get(a.AuthorizeURL("scope", "openid"))).Get("code")
		tokens := a.Redeem(code).Want(http.StatusOK).JSON()
		before := sessionID(b)
		b.Submit(b.Get(newReset(f)), "password", "a new password").Want(http.StatusSeeOther)
		if after := sessionID(b); after == before {
			t.Error("the session goes on")
		}
		a.Refresh(tokens["refresh_token"].(string)).WantRefused(oauth.InvalidGrant)
		a.WantInvalid(tokens["access_token"], "of the previous session")
	})
}

func TestResetLinksExpire(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		link := newReset(f)
		b := f.Browser()
		page := b.Get(link).Want(http.StatusOK)
		f.Clock.Add(time.Hour)
		b.Get(link).Want(http.StatusNotFound)
		b.Submit(page, "password", "a new password").Want(http.StatusNotFound)
	})
}

func TestChangedPasswordVoidsTheLink(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		link := newReset(f)
		b := f.Browser()
		mine := b.SignIn(b.Get(f.URL + "/account"))
		b.Submit(mine, "password", providertest.OwnerPassword, "new_password", "a new password").Want(http.StatusOK)
		b.Get(link).Want(http.StatusNotFound)
	})
}

func TestWrongLinksAreThrottled(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		b := f.Browser()
		link := newReset(f)
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
	})
}

// TestPasswordIsVoidWhileItIsChecked replaces the password of a user while the one of before is being checked: it
// neither signs in nor sets another one.
func TestPasswordIsVoidWhileItIsChecked(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		const replaced = "the password of a link"
		hash := account.HashPassword(replaced)
		signedIn := f.Browser()
		signedIn.SignIn(signedIn.Get(f.URL + "/account"))
		page := f.Browser()
		form := page.Get(f.URL + "/account")

		p := f.NewProvider()
		p.Passwords.Compare = func(hashed, password string) bool {
			correct := account.CheckPassword(hashed, password)
			providertest.Must(t, f.DB.Write(f.Ctx, func(tx *db.Tx) error { return f.Accounts.SetPassword(tx, f.UserID, hash) }))
			return correct
		}
		f.Serve(p)
		page.Submit(form, "email", providertest.OwnerEmail, "password", providertest.OwnerPassword).Want(http.StatusBadRequest)
		if page.SignedIn() {
			t.Error("a password that was replaced has signed in")
		}
		providertest.Must(t, f.DB.Write(f.Ctx, func(tx *db.Tx) error {
			return f.Accounts.SetPassword(tx, f.UserID, account.HashPassword(providertest.OwnerPassword))
		}))
		post(signedIn, "/account/password", "password", providertest.OwnerPassword, "new_password", "a quite new password").
			Want(http.StatusBadRequest)
		user, err := f.Accounts.LoginByID(f.Ctx, f.UserID)
		providertest.Must(t, err)
		if !account.CheckPassword(user.PasswordHash, replaced) {
			t.Error("the password of before has set another one")
		}
	})
}
