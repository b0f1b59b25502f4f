package signin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/upstream"
)

func TestLinksOfInvitationsAreNotGuessed(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		_, link := invite(f, f.OrgID, "grace@example.com", auth.Member)
		b := f.Browser()
		for range 40 {
			b.Get(link).Want(http.StatusOK) // a valid one is not counted
		}
		statuses := map[int]int{}
		for range 20 {
			statuses[b.Get(f.URL+"/invite/unknown").Status]++
			statuses[b.Get(f.URL+"/invite/unknown/passkey").Status]++
		}
		if statuses[http.StatusNotFound] != 30 || statuses[http.StatusTooManyRequests] != 10 {
			t.Errorf("got %v", statuses)
		}
	})
}

// TestEverySignInReplacesTheCookie has a stranger plant a session cookie in a browser, whose user then signs in
// in each way. TestSignInReplacesTheCookie and TestSessionBeginsAfterTheSecondFactor do so with passwords and
// codes, TestSetupReplacesTheCookie with the setup.
func TestEverySignInReplacesTheCookie(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		_, key := withPasskey(f)
		there := newStranger(t, f)
		u := f.NewUpstream(there.welcoming())
		_, byPassword := invite(f, f.OrgID, "grace@example.com", auth.Member)
		_, byPasskey := invite(f, f.OrgID, "alan@example.com", auth.Member)
		ways := map[string]func(b *providertest.Browser) *providertest.Response{
			"a passkey": func(b *providertest.Browser) *providertest.Response {
				app := f.NewApp(providertest.Confidential)
				return usePasskey(b, b.Get(app.AuthorizeURL("prompt", "login")), key)
			},
			"a provider": func(b *providertest.Browser) *providertest.Response {
				_, _, form := b.Get(f.NewApp(providertest.Confidential).AuthorizeURL("prompt", "login")).Form()
				form.Set("upstream", u.ID)
				there.say(claims{"auth_time": f.Clock.Now().Unix()})
				return b.Get(there.back(f, there.receive(b.Do("POST", f.URL+upstream.PathSignIn, form))))
			},
			"an invitation": func(b *providertest.Browser) *providertest.Response {
				return b.Submit(b.Get(byPassword), "password", "a first password")
			},
			"an invitation with a passkey": func(b *providertest.Browser) *providertest.Response {
				return addPasskey(b, b.Get(byPasskey+"/passkey"), f.NewAuthenticator())
			},
			"a reset": func(b *providertest.Browser) *providertest.Response {
				return b.Submit(b.Get(newReset(f)), "password", "a second password")
			},
		}
		f.NewUser("mallory@example.com", "another password")
		at, err := url.Parse(f.URL)
		providertest.Must(t, err)
		for way, signIn := range ways {
			mallory := signInAs(f.Browser(), "mallory@example.com", "another password")
			planted := sessionCookie(mallory)
			b := f.Browser()
			b.HTTP.Jar.SetCookies(at, []*http.Cookie{{Name: session.CookieName, Value: planted, Path: "/"}})
			signIn(b).Want(http.StatusSeeOther)
			if got := sessionCookie(b); got == planted || got == "" || !b.SignedIn() {
				t.Errorf("%s: the session has the cookie %q, planted was %q", way, got, planted)
			}
			if mallory.SignedIn() {
				t.Errorf("%s: the planted cookie still opens a session", way)
			}
		}
	})
}

// TestPasswordDoesNotReplaceARequiredPasskey has somebody who knows the password of a user who has a passkey,
// in an organization that requires one. Neither the password nor a link that sets one opens a session or
// adds a passkey.
func TestPasswordDoesNotReplaceARequiredPasskey(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		_, key := withPasskey(f)
		earlier := f.Browser()
		password(earlier)
		require(f, account.Passkey, auth.Viewer)
		if earlier.SignedIn() {
			t.Error("a session that began with the password is still used")
		}
		thief := f.Browser()
		app := f.NewApp(providertest.Confidential)
		wantRefused := func(refused *providertest.Response) {
			t.Helper()
			refused.Want(http.StatusForbidden)
			if !strings.Contains(refused.Body, "A passkey is required") || strings.Contains(refused.Body, `id="passkey"`) {
				t.Errorf("got %s", refused.Body)
			}
			if sessionCookie(thief) != "" || thief.SignedIn() {
				t.Error("a session was opened")
			}
		}
		wantRefused(password(thief))
		wantRefused(thief.SignIn(thief.Get(app.AuthorizeURL("acr_values", "pwd"))))
		wantRefused(thief.Submit(thief.Get(newReset(f)), "password", "a second password"))
		if page := thief.Get(f.URL + "/account/passkeys"); !isSignIn(page) {
			t.Errorf("a passkey can be added: %s", page.Body)
		}
		if got := thief.Get(app.AuthorizeURL("prompt", "none")).Location().Get("error"); got != "login_required" {
			t.Errorf("an application gets %q", got)
		}
		owner := f.Browser()
		usePasskey(owner, owner.Get(f.URL+"/account"), key).Want(http.StatusSeeOther)
		if !owner.SignedIn() {
			t.Error("the passkey does not sign in")
		}
	})
}

// TestProviderSendsBackToTheBaseURL starts a sign-in at a provider with a request that names another host.
func TestProviderSendsBackToTheBaseURL(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		u := f.NewUpstream(newStranger(t, f).welcoming())
		r := f.Browser().Do("GET", f.URL+upstream.PathSignIn+"/"+u.ID, nil,
			"Host", "evil.example", "X-Forwarded-Host", "evil.example", "Forwarded", "host=evil.example").
			Want(http.StatusSeeOther)
		if got := r.Location().Get("redirect_uri"); got != f.URL+upstream.PathCallback {
			t.Errorf("the provider sends the code to %s", got)
		}
	})
}
