package session_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/provider/session"
)

func TestSessionsExpire(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		b := f.Browser()
		b.Complete(b.Get(a.AuthorizeURL()))
		signedIn := func() bool {
			return !strings.Contains(b.Get(a.AuthorizeURL("prompt", "none")).Header.Get("Location"), "login_required")
		}
		for range 4 {
			f.Clock.Add(session.IdleTimeout - time.Hour)
			if !signedIn() {
				t.Fatal("a session in use has expired")
			}
		}
		f.Clock.Add(session.IdleTimeout - time.Hour) // beyond session.MaxAge in total
		if signedIn() {
			t.Error("the session has not expired")
		}
	})
}

// TestLifetimesOfSessionsAreSettings also checks that a shorter lifetime applies to sessions that there are.
func TestLifetimesOfSessionsAreSettings(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		b := f.Browser()
		b.SignIn(b.Get(f.URL + "/account"))
		f.Clock.Add(31 * time.Minute)
		p := f.NewProvider()
		p.SessionIdle = 8 * time.Minute
		p.SessionMax = 30 * time.Minute
		f.Serve(p)
		if b.SignedIn() {
			t.Fatal("a session of before is older than the new maximum")
		}
		in := b.Submit(b.Get(f.URL+"/account"), "email", providertest.OwnerEmail, "password", providertest.OwnerPassword)
		if set := strings.Join(in.Header.Values("Set-Cookie"), "\n"); !strings.Contains(set, "Max-Age=1800") {
			t.Errorf("got %s", set)
		}
		for range 4 {
			f.Clock.Add(7 * time.Minute)
			if !b.SignedIn() {
				t.Fatal("a session in use has expired")
			}
		}
		f.Clock.Add(2 * time.Minute)
		if b.SignedIn() {
			t.Error("the session outlives its maximum")
		}
		b.SignIn(b.Get(f.URL + "/account"))
		f.Clock.Add(8 * time.Minute)
		if b.SignedIn() {
			t.Error("the idle session has not ended")
		}
	})
}

// TestSignInReplacesTheCookie checks that a cookie which somebody has planted or copied before a
// sign-in is useless after it.
func TestSignInReplacesTheCookie(t *testing.T) {
	f := providertest.OnSQLite(t)
	a, b := f.NewApp(providertest.Confidential), f.Browser()
	at, err := url.Parse(f.URL)
	providertest.Must(t, err)
	b.Complete(b.Get(a.AuthorizeURL()))
	before, thief := b.HTTP.Jar.Cookies(at), f.Browser()
	thief.HTTP.Jar.SetCookies(at, before)
	quiet := a.AuthorizeURL("prompt", "none")
	if !strings.Contains(thief.Get(quiet).Header.Get("Location"), "code=") {
		t.Fatal("the copied cookie does not work at first")
	}
	b.Complete(b.Get(a.AuthorizeURL("prompt", "login")))
	if !strings.Contains(b.Get(quiet).Header.Get("Location"), "code=") {
		t.Error("the new cookie does not work")
	}
	if !strings.Contains(thief.Get(quiet).Header.Get("Location"), "login_required") {
		t.Error("the old cookie still works")
	}
	fresh := f.Browser()
	page := fresh.Get(a.AuthorizeURL())
	in := fresh.Submit(page, "email", providertest.OwnerEmail, "password", providertest.OwnerPassword).
		Want(http.StatusSeeOther)
	set := append(page.Header.Values("Set-Cookie"), in.Header.Values("Set-Cookie")...)
	for _, c := range set {
		if !strings.Contains(c, "HttpOnly") || !strings.Contains(c, "SameSite=Lax") {
			t.Errorf("got cookie %s", c)
		}
	}
	if len(set) != 3 {
		t.Errorf("%d cookies, want those of the form, the session and the device", len(set))
	}
}
