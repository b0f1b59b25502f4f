package providertest

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/mail"
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

// Mail reads the mail that a provider queues.
type Mail struct{ fixture *Fixture }

// ServeWithMail serves a provider on a server that sends mail.
func (f *Fixture) ServeWithMail() *Mail {
	f.T.Helper()
	f.Accounts.Mail = &mail.Store{DB: f.DB, Ring: f.stores.Ring, Now: f.Clock.Now}
	f.Serve(f.NewProvider())
	return &Mail{f}
}

// Want requires the mail queued since the last call: "reset" or a notice's name, and the address, or
// "email of" and a user's id.
func (m *Mail) Want(want ...string) {
	f := m.fixture
	f.T.Helper()
	var queued []string
	Must(f.T, f.DB.Write(f.T.Context(), func(tx *db.Tx) (err error) {
		queued, err = db.Collect(tx, m.scan, `SELECT kind, body FROM mails WHERE kind <> 'invitation' ORDER BY id`)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`DELETE FROM mails WHERE kind <> 'invitation'`)
		return err
	}))
	if !slices.Equal(queued, want) {
		f.T.Errorf("queued mail %q, want %q", queued, want)
	}
}

func (m *Mail) scan(row db.Row) (string, error) {
	var r mail.Request
	var kind string
	var body []byte
	if err := row.Scan(&kind, &body); err != nil {
		return "", err
	}
	body, err := m.fixture.stores.Ring.Open("mail", body)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return "", err
	}
	switch r.Kind = mail.Kind(kind); r.Kind {
	case mail.KindReset:
		return "reset " + r.To, nil
	case mail.KindEmail:
		return "email of " + r.UserID, nil
	}
	return string(r.Notice) + " " + r.To, nil
}

var (
	passkeyForm = regexp.MustCompile(`(?s)<form method="post" action="([^"]+)" id="passkey" data-options="([^"]+)".*?</form>`)
	hiddenField = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)
)

// Ceremony returns a page's passkey form, with its hidden fields and its options.
func (r *Response) Ceremony() (action string, values url.Values, options string) {
	r.T.Helper()
	form := passkeyForm.FindStringSubmatch(r.Body)
	if form == nil {
		r.T.Fatalf("the page has no form for a passkey (%d): %s", r.Status, r.Body)
	}
	values = url.Values{}
	for _, field := range hiddenField.FindAllStringSubmatch(form[0], -1) {
		values.Set(field[1], html.UnescapeString(field[2]))
	}
	return form[1], values, html.UnescapeString(form[2])
}

// AddPasskey creates a passkey on a page and sends it.
func (b *Browser) AddPasskey(page *Response, a *Authenticator) *Response {
	b.Fixture.T.Helper()
	action, values, options := page.Want(http.StatusOK).Ceremony()
	values.Set("credential", a.Create(options))
	values.Set("name", "Laptop")
	return b.Do("POST", b.Fixture.URL+action, values)
}

// UsePasskey signs in with a passkey on a page.
func (b *Browser) UsePasskey(page *Response, a *Authenticator) *Response {
	b.Fixture.T.Helper()
	action, values, options := page.Ceremony()
	values.Set("credential", a.Get(options))
	return b.Do("POST", b.Fixture.URL+action, values)
}

// WithPasskey returns an authenticator with the owner's passkey, and the browser that has created it.
func (f *Fixture) WithPasskey() (*Browser, *Authenticator) {
	f.T.Helper()
	f.UseLocalhost()
	b, a := f.Browser(), f.NewAuthenticator()
	a.Count = 1
	b.SignIn(b.Get(f.URL + "/account"))
	b.AddPasskey(b.Get(f.URL+"/account/passkeys"), a).Want(http.StatusOK)
	return b, a
}

// SignedInStranger returns a browser with a user from another organization.
func (f *Fixture) SignedInStranger() *Browser {
	f.T.Helper()
	f.NewUser("other@example.com", "another password")
	b := f.Browser()
	b.Submit(b.Get(f.URL+"/account"), "email", "other@example.com", "password", "another password").Want(http.StatusSeeOther)
	return b
}
