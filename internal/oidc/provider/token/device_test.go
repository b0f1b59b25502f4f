package token_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

// TestDeviceWithoutOfflineAccessGetsNoRefreshToken declines "stay connected", now and for the next
// device.
func TestDeviceWithoutOfflineAccessGetsNoRefreshToken(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a, b := f.NewApp(providertest.Public), f.Browser()
		connect := func(scope string, checked ...string) *providertest.Response {
			t.Helper()
			d := a.Post("/device_authorization", "scope", scope).Want(http.StatusOK)
			page := b.Get(d.Text("verification_uri_complete"))
			if strings.Contains(page.Body, `name="password"`) {
				page = b.SignIn(page)
			}
			b.Decide(page, checked...).Want(http.StatusOK)
			poll := []string{"grant_type", oidc.DeviceCode, "device_code", d.Text("device_code")}
			return a.Post("/oauth/token", poll...).Want(http.StatusOK)
		}
		declined := connect("openid offline_access", "openid")
		if declined.Text("refresh_token") != "" || declined.Text("scope") != "openid" {
			t.Errorf("declined: %s", declined.Body)
		}
		f.Userinfo(declined.Text("access_token")).Want(http.StatusOK)
		if again := connect("openid offline_access"); again.Text("refresh_token") != "" {
			t.Errorf("the next device: %s", again.Body)
		}
		if other := connect("openid"); other.Text("refresh_token") == "" { // it was not asked for
			t.Errorf("not requested: %s", other.Body)
		}
		providertest.Must(t, f.Clients.Store.RevokeConsent(t.Context(), a.ID, f.UserID, ""))
		granted := connect("openid offline_access", "openid", "offline_access")
		a.Refresh(granted.Text("refresh_token")).Want(http.StatusOK)
	})
}

func TestDeviceCodesAreBoundToTheirClient(t *testing.T) {
	providertest.Each(t, func(_ *testing.T, f *providertest.Fixture) {
		a, other := f.NewApp(providertest.Public), f.NewApp(providertest.Public)
		d := a.Post("/device_authorization", "scope", "openid").Want(http.StatusOK)
		poll := func(by *providertest.App) *providertest.Response {
			return by.Post("/oauth/token", "grant_type", oidc.DeviceCode, "device_code", d.Text("device_code"))
		}
		poll(other).WantRefused(oauth.InvalidGrant)
		poll(other).WantRefused(oauth.InvalidGrant)
		poll(a).WantRefused("authorization_pending") // the polls of the other do not slow it down
		b := f.Browser()
		b.Submit(b.SignIn(b.Get(d.Text("verification_uri_complete")))).Want(http.StatusOK)
		f.Clock.Add(10 * time.Second)
		poll(other).WantRefused(oauth.InvalidGrant)
		tokens := poll(a).Want(http.StatusOK)
		poll(other).WantRefused(oauth.InvalidGrant)
		f.Userinfo(tokens.Text("access_token")).Want(http.StatusOK)
	})
}
