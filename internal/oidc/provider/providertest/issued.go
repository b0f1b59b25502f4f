package providertest

import (
	"net/http"
	"testing"

	"steward/internal/oidc/provider/oauth"
)

// DeviceTokens gets tokens with the device flow, which the owner approves in a browser.
func (a *App) DeviceTokens(b *Browser) map[string]any {
	a.Fixture.T.Helper()
	started := a.Post("/device_authorization", "scope", "openid profile email offline_access").Want(http.StatusOK)
	page := b.Follow(b.Get(started.Text("verification_uri_complete"))).Want(http.StatusOK)
	b.Submit(page).Want(http.StatusOK)
	return a.Post("/oauth/token", "grant_type", "urn:ietf:params:oauth:grant-type:device_code",
		"device_code", started.Text("device_code")).Want(http.StatusOK).JSON()
}

// Issued holds a user's access in four places: a session, and tokens from a session, offline and from a
// device.
type Issued struct {
	Web, public              *App
	Here, there              *Browser
	session, offline, tokens map[string]any
}

// Issue signs the owner in with two browsers, and gets tokens in three ways.
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

// WantEnded requires that all access has ended, except for the sessions in some browsers.
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
