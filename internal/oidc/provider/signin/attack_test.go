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

// TestEverySignInReplacesTheCookie has a stranger plant a session cookie in a browser, whose user then signs in
// in each way. TestSignInReplacesTheCookie and TestSessionBeginsAfterTheSecondFactor do so with passwords and
// codes, TestSetupReplacesTheCookie with the setup.
func TestEverySignInReplacesTheCookie(t *testing.T) {
	f := providertest.OnSQLite(t)
	_, key := f.WithPasskey()
	there := f.NewStranger()
	u := f.NewUpstream(there.Welcoming())
	byPassword := f.Invite(f.OrgID, "grace@example.com", auth.Member)
	byPasskey := f.Invite(f.OrgID, "alan@example.com", auth.Member)
	ways := map[string]func(b *providertest.Browser) *providertest.Response{
		"a passkey": func(b *providertest.Browser) *providertest.Response {
			app := f.NewApp(providertest.Confidential)
			return b.UsePasskey(b.Get(app.AuthorizeURL("prompt", "login")), key)
		},
		"a provider": func(b *providertest.Browser) *providertest.Response {
			_, _, form := b.Get(f.NewApp(providertest.Confidential).AuthorizeURL("prompt", "login")).Form()
			form.Set("upstream", u.ID)
			there.Say(map[string]any{"auth_time": f.Clock.Now().Unix()})
			return b.Get(there.Back(f, there.Receive(b.Do("POST", f.URL+upstream.PathSignIn, form))))
		},
		"an invitation": func(b *providertest.Browser) *providertest.Response {
			return b.Submit(b.Get(byPassword), "password", "a first password")
		},
		"an invitation with a passkey": func(b *providertest.Browser) *providertest.Response {
			return b.AddPasskey(b.Get(byPasskey+"/passkey"), f.NewAuthenticator())
		},
		"a reset": func(b *providertest.Browser) *providertest.Response {
			return b.Submit(b.Get(f.NewReset()), "password", "a second password")
		},
	}
	f.NewUser("mallory@example.com", "another password")
	at, err := url.Parse(f.URL)
	providertest.Must(t, err)
	for way, signIn := range ways {
		mallory := f.Browser().SignInAs("mallory@example.com", "another password")
		planted := mallory.SessionCookie()
		b := f.Browser()
		b.HTTP.Jar.SetCookies(at, []*http.Cookie{{Name: session.CookieName, Value: planted, Path: "/"}})
		signIn(b).Want(http.StatusSeeOther)
		if got := b.SessionCookie(); got == planted || got == "" || !b.SignedIn() {
			t.Errorf("%s: the session has the cookie %q, planted was %q", way, got, planted)
		}
		if mallory.SignedIn() {
			t.Errorf("%s: the planted cookie still opens a session", way)
		}
	}
}

// TestPasswordDoesNotReplaceARequiredPasskey has somebody who knows the password of a user who has a passkey,
// in an organization that requires one. Neither the password nor a link that sets one opens a session or
// adds a passkey.
func TestPasswordDoesNotReplaceARequiredPasskey(t *testing.T) {
	f := providertest.OnSQLite(t)
	_, key := f.WithPasskey()
	earlier := f.Browser()
	earlier.EnterPassword()
	f.RequireFactor(account.Passkey, auth.Viewer)
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
		if thief.SessionCookie() != "" || thief.SignedIn() {
			t.Error("a session was opened")
		}
	}
	wantRefused(thief.EnterPassword())
	wantRefused(thief.SignIn(thief.Get(app.AuthorizeURL("acr_values", "pwd"))))
	wantRefused(thief.Submit(thief.Get(f.NewReset()), "password", "a second password"))
	if page := thief.Get(f.URL + "/account/passkeys"); !page.IsSignIn() {
		t.Errorf("a passkey can be added: %s", page.Body)
	}
	if got := thief.Get(app.AuthorizeURL("prompt", "none")).Location().Get("error"); got != "login_required" {
		t.Errorf("an application gets %q", got)
	}
	owner := f.Browser()
	owner.UsePasskey(owner.Get(f.URL+"/account"), key).Want(http.StatusSeeOther)
	if !owner.SignedIn() {
		t.Error("the passkey does not sign in")
	}
}
