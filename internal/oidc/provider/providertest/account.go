package providertest

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/session"
)

var thisSession = regexp.MustCompile(`(?s)current</span><br>.*?name="session" value="([^"]+)"`)

// SessionID returns the session that the account page marks as this browser's.
func (b *Browser) SessionID() string {
	b.Fixture.T.Helper()
	found := thisSession.FindStringSubmatch(b.Get(b.Fixture.URL + "/account").Want(http.StatusOK).Body)
	if found == nil {
		b.Fixture.T.Fatal("the account page does not mark the current session")
	}
	return found[1]
}

// SessionCookie returns a browser's session cookie, or "".
func (b *Browser) SessionCookie() string {
	b.Fixture.T.Helper()
	u, err := url.Parse(b.Fixture.URL)
	Must(b.Fixture.T, err)
	for _, c := range b.HTTP.Jar.Cookies(u) {
		if c.Name == session.CookieName {
			return c.Value
		}
	}
	return ""
}

// CurrentUser returns the last user to sign in, or "" if the browser has no session.
func (b *Browser) CurrentUser() (userID string) {
	b.Fixture.T.Helper()
	if !b.SignedIn() {
		return ""
	}
	err := b.Fixture.DB.Read(b.Fixture.T.Context()).Row(`SELECT user_id FROM oidc_sessions
		ORDER BY created_at DESC, id DESC LIMIT 1`).Scan(&userID)
	Must(b.Fixture.T, err)
	return userID
}

// WantIn requires that a response has signed a user in, and returns the user's id.
func (b *Browser) WantIn(r *Response) (userID string) {
	b.Fixture.T.Helper()
	r.Want(http.StatusSeeOther)
	return b.CurrentUser()
}

// Post sends a form with the account page's token.
func (b *Browser) Post(path string, fields ...string) *Response {
	b.Fixture.T.Helper()
	_, _, own := b.Get(b.Fixture.URL + "/account").Form()
	values := url.Values{"csrf": {own.Get("csrf")}}
	for i := 0; i < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	return b.Do("POST", b.Fixture.URL+path, values)
}

// SignInAs signs in on the account page.
func (b *Browser) SignInAs(email, password string) *Browser {
	b.Fixture.T.Helper()
	b.Submit(b.Get(b.Fixture.URL+"/account"), "email", email, "password", password).Want(http.StatusSeeOther)
	return b
}

// EnterPassword submits the owner's password on the account page, and returns the page after it.
func (b *Browser) EnterPassword() *Response {
	b.Fixture.T.Helper()
	return b.SignIn(b.Get(b.Fixture.URL + "/account"))
}

// TryPassword submits the account page's form as the owner, and returns the status.
func (b *Browser) TryPassword(password string) int {
	b.Fixture.T.Helper()
	return b.Submit(b.Get(b.Fixture.URL+"/account"), "email", OwnerEmail, "password", password).Status
}

// SignOut ends a browser's session.
func (b *Browser) SignOut() {
	b.Fixture.T.Helper()
	b.Post("/account/sessions", "session", b.SessionID()).Want(http.StatusOK)
}

// IsSignIn reports whether a page asks to sign in.
func (r *Response) IsSignIn() bool { return strings.Contains(r.Body, `action="/sign-in"`) }

// IsCode reports whether a page asks for a code.
func (r *Response) IsCode() bool { return strings.Contains(r.Body, `action="/sign-in/factor"`) }

// IsEnrol reports whether a page asks to set up an authenticator app.
func (r *Response) IsEnrol() bool { return strings.Contains(r.Body, `action="/sign-in/enrol"`) }

// CPUTime returns the CPU time that this process has used, which does not depend on the machine's load.
func CPUTime(t testing.TB) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	Must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// DeviceTokens gets tokens with the device flow, approved in the owner's browser.
func (a *App) DeviceTokens(b *Browser) map[string]any {
	a.Fixture.T.Helper()
	started := a.Post("/device_authorization", "scope", "openid profile email offline_access").Want(http.StatusOK)
	page := b.Follow(b.Get(started.Text("verification_uri_complete"))).Want(http.StatusOK)
	b.Submit(page).Want(http.StatusOK)
	return a.Post("/oauth/token", "grant_type", "urn:ietf:params:oauth:grant-type:device_code",
		"device_code", started.Text("device_code")).Want(http.StatusOK).JSON()
}

// Issued holds a user's access in four places: a session, and tokens for a session, offline and for a
// device.
type Issued struct {
	Web, public              *App
	Here, there              *Browser
	session, offline, tokens map[string]any
}

// Issue signs the owner in in two browsers, and gets tokens in three ways.
func (f *Fixture) Issue() Issued {
	f.T.Helper()
	i := Issued{
		Web: f.NewApp(Confidential), public: f.NewApp(Public),
		Here: f.Browser(), there: f.Browser(),
	}
	i.Here.SignIn(i.Here.Get(f.URL + "/account"))
	code := i.there.Complete(i.there.Get(i.Web.AuthorizeURL("scope", "openid"))).Get("code")
	i.session = i.Web.Redeem(code).Want(http.StatusOK).JSON()
	code = i.Here.Complete(i.Here.Get(i.Web.AuthorizeURL("scope", "openid offline_access"))).Get("code")
	i.offline = i.Web.Redeem(code).Want(http.StatusOK).JSON()
	i.tokens = i.public.DeviceTokens(i.Here)
	return i
}

// WantEnded requires that everything but Here's session has ended.
func (i Issued) WantEnded(t *testing.T) {
	t.Helper()
	if i.there.SignedIn() {
		t.Error("the other session has not ended")
	}
	i.Web.Refresh(i.session["refresh_token"].(string)).WantRefused(oauth.InvalidGrant)
	i.Web.Refresh(i.offline["refresh_token"].(string)).WantRefused(oauth.InvalidGrant)
	i.public.Refresh(i.tokens["refresh_token"].(string)).WantRefused(oauth.InvalidGrant)
	i.Web.WantInvalid(i.session["access_token"], "of another session")
	i.Web.WantInvalid(i.offline["access_token"], "offline")
	i.Web.WantInvalid(i.tokens["access_token"], "of a device")
}
