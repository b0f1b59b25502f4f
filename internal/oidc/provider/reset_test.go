package provider

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/oidc/provider/oauth"
)

// newReset returns the address of a link with which the owner can set a new password.
func (f *fixture) newReset() string {
	f.t.Helper()
	var token string
	must(f.t, f.db.Write(f.ctx, func(tx *db.Tx) (err error) {
		token, _, err = f.accounts.NewReset(tx, f.userID)
		return err
	}))
	return f.url + "/reset/" + token
}

// signedIn reports whether a browser shows the account page.
func (b *browser) signedIn() bool {
	b.f.t.Helper()
	return strings.Contains(b.get(b.f.url+"/account").want(http.StatusOK).body, "Your account")
}

// device gets tokens with the device flow, approved in a browser of the owner.
func (a *app) device(b *browser) map[string]any {
	a.f.t.Helper()
	started := a.post("/device_authorization", "scope", "openid profile email offline_access").want(http.StatusOK)
	page := b.follow(b.get(started.text("verification_uri_complete"))).want(http.StatusOK)
	b.submit(page).want(http.StatusOK)
	return a.post("/oauth/token", "grant_type", "urn:ietf:params:oauth:grant-type:device_code",
		"device_code", started.text("device_code")).want(http.StatusOK).json()
}

// issued holds what a user has in four places: a session, and tokens of a session, offline and of a
// device.
type issued struct {
	web, public              *app
	here, there              *browser
	session, offline, tokens map[string]any
}

func (f *fixture) issue() issued {
	f.t.Helper()
	i := issued{web: f.newApp(confidential), public: f.newApp(public), here: f.browser(), there: f.browser()}
	i.here.signIn(i.here.get(f.url + "/account"))
	code := i.there.complete(i.there.get(i.web.authorizeURL("scope", "openid"))).Get("code")
	i.session = i.web.redeem(code).want(http.StatusOK).json()
	code = i.here.complete(i.here.get(i.web.authorizeURL("scope", "openid offline_access"))).Get("code")
	i.offline = i.web.redeem(code).want(http.StatusOK).json()
	i.tokens = i.public.device(i.here)
	return i
}

// wantEnded requires that everything but the sessions of some browsers has ended.
func (i issued) wantEnded(t *testing.T) {
	t.Helper()
	if i.there.signedIn() {
		t.Error("the other session has not ended")
	}
	i.web.refresh(i.session["refresh_token"].(string)).wantRefused(oauth.InvalidGrant)
	i.web.refresh(i.offline["refresh_token"].(string)).wantRefused(oauth.InvalidGrant)
	i.public.refresh(i.tokens["refresh_token"].(string)).wantRefused(oauth.InvalidGrant)
	i.web.wantInvalid(i.session["access_token"], "of another session")
	i.web.wantInvalid(i.offline["access_token"], "offline")
	i.web.wantInvalid(i.tokens["access_token"], "of a device")
}

func TestResetReplacesThePasswordAndEndsEverythingElse(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		i := f.issue()
		older := f.newReset()
		link := f.newReset()
		b := f.browser()
		b.get(older).want(http.StatusNotFound)
		page := b.get(link).want(http.StatusOK)
		h := page.header
		if h.Get("Referrer-Policy") != "same-origin" || h.Get("Cache-Control") != "no-store" ||
			strings.Count(page.body, `name="password"`) != 1 {
			t.Errorf("got %v %s", h, page.body)
		}
		for _, refused := range []string{"too short", "Password123!", ownerEmail} {
			b.submit(page, "password", refused).want(http.StatusBadRequest)
		}
		done := b.submit(page, "password", "a new password").want(http.StatusSeeOther)
		if done.header.Get("Location") != "/account" || !b.signedIn() {
			t.Error("the user is not signed in on the account page")
		}
		i.wantEnded(t)
		if i.here.signedIn() {
			t.Error("a session has survived")
		}
		used := b.get(link).want(http.StatusNotFound)
		if strings.Contains(used.body, ownerEmail) {
			t.Error("a used link reveals the email address")
		}
		b.submit(page, "password", "a third password").want(http.StatusNotFound)
		other := f.browser()
		other.submit(other.get(f.url+"/account"), "email", ownerEmail, "password", ownerPassword).want(http.StatusBadRequest)
		other.submit(other.get(f.url+"/account"), "email", ownerEmail, "password", "a new password").want(http.StatusSeeOther)
	})
}

// TestResetInABrowserWithASession checks that the session of the same browser ends too: its grants must
// not go on in the new one.
func TestResetInABrowserWithASession(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		b := f.browser()
		code := b.complete(b.get(a.authorizeURL("scope", "openid"))).Get("code")
		tokens := a.redeem(code).want(http.StatusOK).json()
		before := b.sessionID()
		b.submit(b.get(f.newReset()), "password", "a new password").want(http.StatusSeeOther)
		if after := b.sessionID(); after == before {
			t.Error("the session goes on")
		}
		a.refresh(tokens["refresh_token"].(string)).wantRefused(oauth.InvalidGrant)
		a.wantInvalid(tokens["access_token"], "of the previous session")
	})
}

func TestResetLinksExpire(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		link := f.newReset()
		b := f.browser()
		page := b.get(link).want(http.StatusOK)
		f.clock.add(time.Hour)
		b.get(link).want(http.StatusNotFound)
		b.submit(page, "password", "a new password").want(http.StatusNotFound)
	})
}

func TestChangedPasswordVoidsTheLink(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		link := f.newReset()
		b := f.browser()
		mine := b.signIn(b.get(f.url + "/account"))
		b.submit(mine, "password", ownerPassword, "new_password", "a new password").want(http.StatusOK)
		b.get(link).want(http.StatusNotFound)
	})
}

func TestWrongLinksAreThrottled(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.browser()
		link := f.newReset()
		for range 100 {
			b.get(link).want(http.StatusOK) // a valid one is not counted
		}
		statuses := map[int]int{}
		for range 40 {
			r := b.get(f.url + "/reset/unknown")
			statuses[r.status]++
			if r.status == http.StatusTooManyRequests && r.header.Get("Retry-After") == "" {
				t.Fatal("no Retry-After")
			}
		}
		if statuses[http.StatusNotFound] != 30 || statuses[http.StatusTooManyRequests] != 10 {
			t.Errorf("got %v", statuses)
		}
	})
}

func TestChangedPasswordEndsEverythingElse(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		i := f.issue()
		code := i.here.complete(i.here.get(i.web.authorizeURL("scope", "openid"))).Get("code")
		own := i.web.redeem(code).want(http.StatusOK).json()
		mine := i.here.get(f.url + "/account")
		i.here.submit(mine, "password", ownerPassword, "new_password", "a new password").want(http.StatusOK)
		i.wantEnded(t)
		if !i.here.signedIn() {
			t.Error("the current session has ended")
		}
		i.web.refresh(own["refresh_token"].(string)).want(http.StatusOK)
	})
}

func TestSignOutEverywhereEndsDeviceGrantsToo(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		i := f.issue()
		stranger := f.browser()
		f.newUser("other@example.com", "another password")
		stranger.follow(stranger.submit(stranger.get(f.url+"/account"), "email", "other@example.com",
			"password", "another password"))
		_, _, values := i.here.get(f.url + "/account").form()
		page := i.here.do("POST", f.url+"/account/sign-out", values).want(http.StatusOK)
		if !strings.Contains(page.body, "signed out everywhere") {
			t.Errorf("got %s", page.body)
		}
		i.wantEnded(t)
		if i.here.signedIn() || !stranger.signedIn() {
			t.Error("the current session goes on, or that of another user has ended")
		}
	})
}
