package provider

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"steward/internal/audit"
	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	paging "steward/internal/page"
)

// decide submits a consent page with these scopes checked.
func (b *browser) decide(page *response, checked ...string) *response {
	b.f.t.Helper()
	_, action, values := page.want(http.StatusOK).form()
	values["scope"] = checked
	return b.do("POST", b.f.url+action, values)
}

// asks reports whether a page asks for a scope.
func (r *response) asks(scope string) bool {
	return strings.Contains(r.body, `name="scope" value="`+scope+`"`)
}

func TestDeclinedScopesAreNotAskedAgain(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a, b := f.newApp(confidential), f.browser()
		wantScope := func(r *response, want string) {
			t.Helper()
			got := a.redeem(r.location().Get("code")).want(http.StatusOK).text("scope")
			if got != want {
				t.Errorf("got scope %q, want %q", got, want)
			}
		}
		const both = "openid email webhook:read"
		wantScope(b.decide(b.signIn(b.get(a.authorizeURL("scope", both))), "openid", "email"), "openid email")
		wantScope(b.get(a.authorizeURL("scope", both)), "openid email")
		wantScope(b.get(a.authorizeURL("scope", both, "prompt", "none")), "openid email")
		wantScope(b.get(a.authorizeURL("scope", "openid webhook:read", "prompt", "none")), "openid")

		// A new scope is asked for, alone.
		page := b.get(a.authorizeURL("scope", both+" profile")).want(http.StatusOK)
		if !page.asks("profile") || page.asks("webhook:read") || page.asks("email") {
			t.Fatal(page.body)
		}
		wantScope(b.decide(page, "profile"), "openid email profile")

		// If there is nothing to grant, the user is asked.
		if got := b.get(a.authorizeURL("scope", "webhook:read", "prompt", "none")).location(); got.Get("error") !=
			oauth.ConsentRequired {
			t.Errorf("got %v", got)
		}
		if !b.get(a.authorizeURL("scope", "webhook:read")).asks("webhook:read") {
			t.Error("the user is not asked")
		}

		// prompt=consent shows the declined scope again, and the user can change their mind.
		page = b.get(a.authorizeURL("scope", both, "prompt", "consent")).want(http.StatusOK)
		if !page.asks("webhook:read") || !page.asks("email") {
			t.Fatal(page.body)
		}
		wantScope(b.decide(page, "openid", "email", "webhook:read"), both)
		wantScope(b.get(a.authorizeURL("scope", both, "prompt", "none")), both)

		own, err := f.clients.Store.Own(t.Context(), f.userID, paging.Paging{Limit: 10})
		must(t, err)
		if !slices.Equal(own.Items[0].Scopes, []string{"openid", "email", "profile", "webhook:read"}) {
			t.Errorf("got %v", own.Items[0].Scopes)
		}
	})
}

// TestNativeClientsAskEachTime also checks that a confidential client with the same redirect URIs
// does not.
func TestNativeClientsAskEachTime(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		for _, c := range []struct{ registered, requested string }{
			{"com.example.app:/cb", "com.example.app:/cb"},
			{"http://127.0.0.1/cb", "http://127.0.0.1:4711/cb"},
			{"http://[::1]/cb", "http://[::1]:4711/cb"},
			{"http://localhost:3000/cb", "http://localhost:3000/cb"},
		} {
			a, b := f.newApp(strings.ReplaceAll(public, callback, c.registered)), f.browser()
			at := func(pairs ...string) string {
				return a.authorizeURL(slices.Concat([]string{"redirect_uri", c.requested, "scope", "openid email"}, pairs)...)
			}
			first := b.decide(b.signIn(b.get(at())), "openid") // declines email
			if first.location().Get("code") == "" {
				t.Fatalf("%s: %v", c.requested, first.location())
			}
			if got := b.get(at("prompt", "none")).location(); got.Get("error") != oauth.InteractionRequired {
				t.Errorf("%s: prompt=none got %v", c.requested, got)
			}
			again := b.get(at()).want(http.StatusOK)
			if !again.asks("openid") || again.asks("email") {
				t.Errorf("%s: %s", c.requested, again.body)
			}
			if got := b.submit(again).location(); got.Get("code") == "" {
				t.Errorf("%s: got %v", c.requested, got)
			}
			if strings.HasPrefix(c.requested, "com.") {
				continue // for public clients only
			}
			a, b = f.newApp(strings.ReplaceAll(confidential, callback, c.registered)), f.browser()
			b.complete(b.get(at()))
			if got := b.get(at("prompt", "none")).location(); got.Get("code") == "" {
				t.Errorf("%s, confidential: %v", c.requested, got)
			}
		}
		// A public client that is a web application is remembered.
		a, b := f.newApp(public), f.browser()
		b.complete(b.get(a.authorizeURL()))
		if got := b.get(a.authorizeURL("prompt", "none")).location(); got.Get("code") == "" {
			t.Errorf("web application: %v", got)
		}
	})
}

func TestConsentPageShowsOwnerAndDestination(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		must(t, f.db.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE orgs SET name = 'Harbour & Sons' WHERE id = $1`, f.orgID)
			return err
		}))
		for uri, want := range map[string]string{
			callback:                      "You will be sent to <strong>rp.example.com</strong>",
			"http://127.0.0.1:4711/cb":    "You will be sent to <strong>127.0.0.1:4711</strong>",
			"com.example.app://cb/x":      "You will be sent to the app <strong>com.example.app</strong> on this device",
			"https://rp.example.com:8/cb": "You will be sent to <strong>rp.example.com:8</strong>",
		} {
			a, b := f.newApp(strings.ReplaceAll(public, callback, uri)), f.browser()
			page := b.signIn(b.get(a.authorizeURL("redirect_uri", uri))).want(http.StatusOK)
			if !strings.Contains(page.body, want) || !strings.Contains(page.body, "by Harbour &amp; Sons") {
				t.Errorf("%s: %s", uri, page.body)
			}
		}
		a, b := f.newApp(public), f.browser()
		d := a.post("/device_authorization").want(http.StatusOK)
		page := b.signIn(b.get(d.text("verification_uri_complete"))).want(http.StatusOK)
		if !strings.Contains(page.body, "by Harbour &amp; Sons") || strings.Contains(page.body, "sent to") {
			t.Errorf("device: %s", page.body)
		}
	})
}

// TestConsentsAreAudited looks at the log of the organization that owns the client. The user
// belongs to no organization.
func TestConsentsAreAudited(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a, b := f.newApp(confidential), f.browser()
		guest := f.newUser("guest@example.com", "guest password")
		b.completeAs(b.get(a.authorizeURL()), "guest@example.com", "guest password")
		b.get(a.authorizeURL()).want(http.StatusSeeOther) // remembered, so nothing is given
		must(t, f.clients.Store.RevokeConsent(t.Context(), a.id, guest))
		denied := b.get(a.authorizeURL()).want(http.StatusOK)
		b.submit(denied, "action", "deny")
		log, err := (&audit.Store{DB: f.db}).List(t.Context(), f.orgID, audit.Filter{Action: "consent."}, paging.Paging{Limit: 100})
		must(t, err)
		var got []string
		for _, e := range log.Items {
			if strings.HasPrefix(e.Action, "consent.") {
				if e.UserID == nil || *e.UserID != guest || e.KeyID != nil {
					t.Errorf("%+v", e)
				}
				got = append(got, e.Action+" "+e.Target)
			}
		}
		if !slices.Equal(got, []string{"consent.revoke " + a.id, "consent.grant " + a.id}) {
			t.Errorf("got %v", got)
		}
	})
}

// TestDeviceWithoutOfflineAccessGetsNoRefreshToken declines "stay connected", now and for the next
// device.
func TestDeviceWithoutOfflineAccessGetsNoRefreshToken(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a, b := f.newApp(public), f.browser()
		connect := func(scope string, checked ...string) *response {
			t.Helper()
			d := a.post("/device_authorization", "scope", scope).want(http.StatusOK)
			page := b.get(d.text("verification_uri_complete"))
			if strings.Contains(page.body, `name="password"`) {
				page = b.signIn(page)
			}
			b.decide(page, checked...).want(http.StatusOK)
			poll := []string{"grant_type", oidc.DeviceCode, "device_code", d.text("device_code")}
			return a.post("/oauth/token", poll...).want(http.StatusOK)
		}
		declined := connect("openid offline_access", "openid")
		if declined.text("refresh_token") != "" || declined.text("scope") != "openid" {
			t.Errorf("declined: %s", declined.body)
		}
		f.userinfo(declined.text("access_token")).want(http.StatusOK)
		if again := connect("openid offline_access"); again.text("refresh_token") != "" {
			t.Errorf("the next device: %s", again.body)
		}
		if other := connect("openid"); other.text("refresh_token") == "" { // it was not asked for
			t.Errorf("not requested: %s", other.body)
		}
		must(t, f.clients.Store.RevokeConsent(t.Context(), a.id, f.userID))
		granted := connect("openid offline_access", "openid", "offline_access")
		a.refresh(granted.text("refresh_token")).want(http.StatusOK)
	})
}
