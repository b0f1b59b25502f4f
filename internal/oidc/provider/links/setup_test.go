package links_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/internal/oidc/provider/providertest"
)

// eachPending runs a test on installations whose owner has to be set up.
func eachPending(t *testing.T, test func(t *testing.T, f *providertest.Fixture)) {
	t.Helper()
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		forgetOwner(f)
		test(t, f)
	})
}

// pending returns an installation like those of eachPending, on SQLite.
func pending(t *testing.T) *providertest.Fixture {
	t.Helper()
	f := providertest.OnSQLite(t)
	forgetOwner(f)
	return f
}

// forgetOwner takes the owner's address and password, so that the owner has to be set up.
func forgetOwner(f *providertest.Fixture) {
	f.T.Helper()
	_, err := f.DB.Exec(f.T.Context(), `UPDATE users SET email = NULL, password_hash = NULL`)
	providertest.Must(f.T, err)
}

// setUp sends the form of the setup with a token.
func setUp(b *providertest.Browser, token string) *providertest.Response {
	b.Fixture.T.Helper()
	page := b.Get(b.Fixture.URL + "/console/setup").Want(http.StatusOK)
	return b.Submit(page, "token", token, "organization", "Acme", "email", "Ada@Example.com", "password", "a first password")
}

func TestSetupLinkSignsTheFirstOwnerIn(t *testing.T) {
	eachPending(t, func(t *testing.T, f *providertest.Fixture) {
		b, token := f.Browser(), f.SetupToken()
		const html = "text/html"
		hint := b.Do("GET", f.URL+"/", nil, "Accept", html).Want(http.StatusOK)
		if !strings.Contains(hint.Body, "steward setup-link") || strings.Contains(hint.Body, token) {
			t.Errorf("the first page says %s", hint.Body)
		}
		page := b.Get(f.URL + "/console/setup").Want(http.StatusOK)
		for what, fields := range map[string][]string{
			"address":          {"email", "ada"},
			"password":         {"password", "too short"},
			"the address":      {"password", "ada@example.com"},
			"no organization":  {"organization", " "},
			"a header in name": {"organization", "A\r\nBcc: eve@example.com"},
		} {
			good := []string{"token", token, "organization", "Acme", "email", "ada@example.com", "password", "a first password"}
			again := b.Submit(page, append(good, fields...)...).Want(http.StatusBadRequest)
			if !strings.Contains(again.Body, `role="alert"`) || !strings.Contains(again.Body, token) {
				t.Errorf("%s: %s", what, again.Body)
			}
		}
		done := setUp(b, token).Want(http.StatusSeeOther)
		if to := done.Header.Get("Location"); to != "/console/sign-in" || !b.SignedIn() {
			t.Errorf("the setup leads to %q", to)
		}
		if user, err := f.Accounts.UserByEmail(t.Context(), "ada@example.com"); err != nil || user.ID != f.UserID {
			t.Errorf("got %+v, %v", user, err)
		}
		b.Do("GET", f.URL+"/", nil, "Accept", html).Want(http.StatusSeeOther)
		b.Get(f.URL + "/console/setup").Want(http.StatusGone)
		stranger := f.Browser()
		stranger.Submit(stranger.Get(f.URL+"/account"), "email", "ada@example.com", "password", "a first password").
			Want(http.StatusSeeOther)
	})
}

func TestSetupLinkWorksOnce(t *testing.T) {
	eachPending(t, func(t *testing.T, f *providertest.Fixture) {
		token := f.SetupToken()
		late := f.Browser()
		page := late.Get(f.URL + "/console/setup").Want(http.StatusOK)
		setUp(f.Browser(), token).Want(http.StatusSeeOther)
		f.Serve(f.NewProvider()) // another replica
		late.Submit(page, "token", token, "organization", "Evil", "email", "eve@example.com", "password", "a second password").
			Want(http.StatusGone)
		if late.SignedIn() {
			t.Error("a used link signs in")
		}
		if name, err := f.Accounts.OrgName(t.Context(), f.OrgID); err != nil || name != "Acme" {
			t.Errorf("the organization is %q, %v", name, err)
		}
	})
}

// TestSetupOnAnotherReplica uses a link that was printed before a restart.
func TestSetupOnAnotherReplica(t *testing.T) {
	f := pending(t)
	token := f.SetupToken()
	b := f.Browser()
	page := b.Get(f.URL + "/console/setup").Want(http.StatusOK)
	f.Serve(f.NewProvider())
	b.Submit(page, "token", token, "organization", "Acme", "email", "ada@example.com", "password", "a first password").
		Want(http.StatusSeeOther)
}

func TestSetupRefusesGuessing(t *testing.T) {
	f := pending(t)
	token := f.SetupToken()
	guesser := f.Browser()
	refused := setUp(guesser, "_"+token[1:]).Want(http.StatusBadRequest)
	if !strings.Contains(refused.Body, "not valid or has expired") {
		t.Errorf("got %s", refused.Body)
	}
	status := 0
	for i := 0; i < 40 && status != http.StatusTooManyRequests; i++ {
		status = setUp(guesser, "guess").Status
	}
	if status != http.StatusTooManyRequests || f.Checked.Load() != 0 {
		t.Errorf("guessing goes on: %d", status)
	}
	f.Clock.Add(25 * time.Hour)
	setUp(f.Browser(), token).Want(http.StatusBadRequest)
	setUp(f.Browser(), f.SetupToken()).Want(http.StatusSeeOther)
}

// TestSetupIgnoresTheHostHeader sends requests that name another host.
func TestSetupIgnoresTheHostHeader(t *testing.T) {
	f := pending(t)
	b := f.Browser()
	forged := []string{"Host", "evil.example", "X-Forwarded-Host", "evil.example", "Forwarded", "host=evil.example"}
	page := b.Do("GET", f.URL+"/console/setup", nil, forged...).Want(http.StatusOK)
	root := b.Do("GET", f.URL+"/", nil, append(forged, "Accept", "text/html")...).Want(http.StatusOK)
	_, _, form := page.Form()
	for name, value := range map[string]string{
		"token": f.SetupToken(), "organization": "Acme", "email": "ada@example.com", "password": "a first password",
	} {
		form.Set(name, value)
	}
	done := b.Do("POST", f.URL+"/console/setup", form, forged...).Want(http.StatusSeeOther)
	if to := done.Header.Get("Location"); to != "/console/sign-in" {
		t.Errorf("it leads to %s", to)
	}
	if strings.Contains(page.Body+root.Body, "evil.example") {
		t.Error("a page names the host of the request")
	}
}

// TestSetupReplacesTheCookie has a stranger plant cookies in the owner's browser before the setup.
func TestSetupReplacesTheCookie(t *testing.T) {
	f := pending(t)
	f.NewUser("eve@example.com", "another password")
	at, err := url.Parse(f.URL)
	providertest.Must(t, err)
	stranger := f.Browser()
	stranger.Submit(stranger.Get(f.URL+"/account"), "email", "eve@example.com", "password", "another password").
		Want(http.StatusSeeOther)
	planted := stranger.HTTP.Jar.Cookies(at)
	b := f.Browser()
	b.HTTP.Jar.SetCookies(at, planted)
	setUp(b, f.SetupToken()).Want(http.StatusSeeOther)
	if !strings.Contains(b.Get(f.URL+"/account").Body, "ada@example.com") {
		t.Error("the owner is not signed in")
	}
	if stranger.SignedIn() {
		t.Error("the planted cookie still opens a session")
	}
}

// TestSetupFormOfAnotherSiteIsRefused sends the form without the token of the page.
func TestSetupFormOfAnotherSiteIsRefused(t *testing.T) {
	f := pending(t)
	form := url.Values{
		"token": {f.SetupToken()}, "organization": {"Evil"}, "email": {"eve@example.com"}, "password": {"a first password"},
	}
	f.Browser().Do("POST", f.URL+"/console/setup", form).Want(http.StatusForbidden)
}
