package device_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/oidc"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

// TestDeviceFlow covers pending, approved, denied and expired device codes, polling too often, and
// guessing.
func TestDeviceFlow(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Public)
		request := func() *providertest.Response {
			return a.Post("/device_authorization", "scope", "openid email").Want(http.StatusOK)
		}
		poll := func(d *providertest.Response) *providertest.Response {
			return a.Post("/oauth/token", "grant_type", oidc.DeviceCode, "device_code", d.Text("device_code"))
		}
		d := request()
		poll(d).WantRefused("authorization_pending")
		poll(d).WantRefused("slow_down")
		f.Clock.Add(11 * time.Second)
		poll(d).WantRefused("authorization_pending")

		b := f.Browser()
		typed := strings.ToLower(strings.ReplaceAll(d.Text("user_code"), "-", " "))
		page := b.Submit(b.Get(f.URL+"/device").Want(http.StatusOK), "user_code", typed) // the sign-in page
		page = b.SignIn(page).Want(http.StatusOK)
		if !strings.Contains(page.Body, "Test app") || !strings.Contains(page.Body, d.Text("user_code")) {
			t.Fatalf("the page does not name the application and the code: %s", page.Body)
		}
		b.Submit(page).Want(http.StatusOK)
		f.Clock.Add(11 * time.Second)
		tokens := poll(d).Want(http.StatusOK)
		f.Userinfo(tokens.Text("access_token")).Want(http.StatusOK)
		a.Refresh(tokens.Text("refresh_token")).Want(http.StatusOK)
		poll(d).WantRefused(oauth.InvalidGrant)
		a.WantInvalid(tokens.Text("access_token"), "device code reused")

		denied := request()
		b.Submit(b.Get(denied.Text("verification_uri_complete")), "action", "deny").Want(http.StatusOK)
		poll(denied).WantRefused(oauth.AccessDenied)
		expired := request()
		f.Clock.Add(grant.DeviceLifetime)
		poll(expired).WantRefused("expired_token")
		b.Get(expired.Text("verification_uri_complete")).Want(http.StatusBadRequest)
		for range 40 {
			if b.Get(f.URL+"/device?user_code=BBBBBBBB").Status == http.StatusTooManyRequests {
				return
			}
		}
		t.Error("user codes can be guessed without a limit")
	})
}

// TestDevicePageListsAllScopes connects a second device, which gets what was granted to the first one.
func TestDevicePageListsAllScopes(t *testing.T) {
	f := providertest.OnSQLite(t)
	a, b := f.NewApp(providertest.Public), f.Browser()
	for _, device := range []string{"first", "second"} {
		d := a.Post("/device_authorization", "scope", "openid email offline_access").Want(http.StatusOK)
		page := b.Get(d.Text("verification_uri_complete"))
		if device == "first" {
			page = b.SignIn(page)
		}
		for _, scope := range []string{"openid", "email", "offline_access"} {
			if !page.Asks(scope) {
				t.Errorf("the page of the %s device does not list %s: %s", device, scope, page.Body)
			}
		}
		b.Submit(page).Want(http.StatusOK)
		got := a.Post("/oauth/token", "grant_type", oidc.DeviceCode, "device_code", d.Text("device_code"))
		if got.Want(http.StatusOK).Text("scope") != "openid email offline_access" {
			t.Errorf("the %s device gets %s", device, got.Body)
		}
	}
}
