package grant_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"steward/internal/audit"
	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
	paging "steward/internal/page"
)

func TestDeclinedScopesAreNotAskedAgain(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a, b := f.NewApp(providertest.Confidential), f.Browser()
		wantScope := func(r *providertest.Response, want string) {
			t.Helper()
			got := a.Redeem(r.Location().Get("code")).Want(http.StatusOK).Text("scope")
			if got != want {
				t.Errorf("got scope %q, want %q", got, want)
			}
		}
		const both = "openid email webhook:read"
		wantScope(b.Decide(b.SignIn(b.Get(a.AuthorizeURL("scope", both))), "openid", "email"), "openid email")
		wantScope(b.Get(a.AuthorizeURL("scope", both)), "openid email")
		wantScope(b.Get(a.AuthorizeURL("scope", both, "prompt", "none")), "openid email")
		wantScope(b.Get(a.AuthorizeURL("scope", "openid webhook:read", "prompt", "none")), "openid")

		// A new scope is asked for, alone.
		page := b.Get(a.AuthorizeURL("scope", both+" profile")).Want(http.StatusOK)
		if !page.Asks("profile") || page.Asks("webhook:read") || page.Asks("email") {
			t.Fatal(page.Body)
		}
		wantScope(b.Decide(page, "profile"), "openid email profile")

		// If there is nothing to grant, the user is asked.
		if got := b.Get(a.AuthorizeURL("scope", "webhook:read", "prompt", "none")).Location(); got.Get("error") !=
			oauth.ConsentRequired {
			t.Errorf("got %v", got)
		}
		if !b.Get(a.AuthorizeURL("scope", "webhook:read")).Asks("webhook:read") {
			t.Error("the user is not asked")
		}

		// prompt=consent shows the declined scope again, and the user can change their mind.
		page = b.Get(a.AuthorizeURL("scope", both, "prompt", "consent")).Want(http.StatusOK)
		if !page.Asks("webhook:read") || !page.Asks("email") {
			t.Fatal(page.Body)
		}
		wantScope(b.Decide(page, "openid", "email", "webhook:read"), both)
		wantScope(b.Get(a.AuthorizeURL("scope", both, "prompt", "none")), both)

		own, err := f.Clients.Store.Own(t.Context(), f.UserID, "", paging.Paging{Limit: 10})
		providertest.Must(t, err)
		if !slices.Equal(own.Items[0].Scopes, []string{"openid", "email", "profile", "webhook:read"}) {
			t.Errorf("got %v", own.Items[0].Scopes)
		}
	})
}

// TestNativeClientsAskEachTime also checks that a confidential client with the same redirect URIs
// does not.
func TestNativeClientsAskEachTime(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		for _, c := range []struct{ registered, requested string }{
			{"com.example.app:/cb", "com.example.app:/cb"},
			{"http://127.0.0.1/cb", "http://127.0.0.1:4711/cb"},
			{"http://[::1]/cb", "http://[::1]:4711/cb"},
			{"http://localhost:3000/cb", "http://localhost:3000/cb"},
		} {
			a, b := f.NewApp(strings.ReplaceAll(providertest.Public, providertest.Callback, c.registered)), f.Browser()
			at := func(pairs ...string) string {
				return a.AuthorizeURL(slices.Concat([]string{"redirect_uri", c.requested, "scope", "openid email"},
					pairs)...)
			}
			first := b.Decide(b.SignIn(b.Get(at())), "openid") // declines email
			if first.Location().Get("code") == "" {
				t.Fatalf("%s: %v", c.requested, first.Location())
			}
			if got := b.Get(at("prompt", "none")).Location(); got.Get("error") != oauth.InteractionRequired {
				t.Errorf("%s: prompt=none got %v", c.requested, got)
			}
			again := b.Get(at()).Want(http.StatusOK)
			if !again.Asks("openid") || again.Asks("email") {
				t.Errorf("%s: %s", c.requested, again.Body)
			}
			if got := b.Submit(again).Location(); got.Get("code") == "" {
				t.Errorf("%s: got %v", c.requested, got)
			}
			if strings.HasPrefix(c.requested, "com.") {
				continue // for public clients only
			}
			a = f.NewApp(strings.ReplaceAll(providertest.Confidential, providertest.Callback, c.registered))
			b = f.Browser()
			b.Complete(b.Get(at()))
			if got := b.Get(at("prompt", "none")).Location(); got.Get("code") == "" {
				t.Errorf("%s, confidential: %v", c.requested, got)
			}
		}
		// A public client that is a web application is remembered.
		a, b := f.NewApp(providertest.Public), f.Browser()
		b.Complete(b.Get(a.AuthorizeURL()))
		if got := b.Get(a.AuthorizeURL("prompt", "none")).Location(); got.Get("code") == "" {
			t.Errorf("web application: %v", got)
		}
	})
}

func TestConsentPageShowsOwnerAndDestination(t *testing.T) {
	f := providertest.OnSQLite(t)
	providertest.Must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE orgs SET name = 'Harbour & Sons' WHERE id = $1`, f.OrgID)
		return err
	}))
	for uri, want := range map[string]string{
		providertest.Callback:         "You will be sent to <strong>rp.example.com</strong>",
		"http://127.0.0.1:4711/cb":    "You will be sent to <strong>127.0.0.1:4711</strong>",
		"com.example.app://cb/x":      "You will be sent to the app <strong>com.example.app</strong> on this device",
		"https://rp.example.com:8/cb": "You will be sent to <strong>rp.example.com:8</strong>",
	} {
		a, b := f.NewApp(strings.ReplaceAll(providertest.Public, providertest.Callback, uri)), f.Browser()
		page := b.SignIn(b.Get(a.AuthorizeURL("redirect_uri", uri))).Want(http.StatusOK)
		if !strings.Contains(page.Body, want) || !strings.Contains(page.Body, "by Harbour &amp; Sons") {
			t.Errorf("%s: %s", uri, page.Body)
		}
	}
	a, b := f.NewApp(providertest.Public), f.Browser()
	d := a.Post("/device_authorization").Want(http.StatusOK)
	page := b.SignIn(b.Get(d.Text("verification_uri_complete"))).Want(http.StatusOK)
	if !strings.Contains(page.Body, "by Harbour &amp; Sons") || strings.Contains(page.Body, "sent to") {
		t.Errorf("device: %s", page.Body)
	}
}

// TestConsentsAreAudited looks at the log of the organization that owns the client. The user
// belongs to no organization.
func TestConsentsAreAudited(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a, b := f.NewApp(providertest.Confidential), f.Browser()
		guest := f.NewUser("guest@example.com", "guest password")
		b.CompleteAs(b.Get(a.AuthorizeURL()), "guest@example.com", "guest password")
		b.Get(a.AuthorizeURL()).Want(http.StatusSeeOther) // remembered, so nothing is given
		providertest.Must(t, f.Clients.Store.RevokeConsent(t.Context(), a.ID, guest, ""))
		denied := b.Get(a.AuthorizeURL()).Want(http.StatusOK)
		b.Submit(denied, "action", "deny")
		log, err := (&audit.Store{DB: f.DB}).List(t.Context(), f.OrgID, audit.Filter{Action: "consent."},
			paging.Paging{Limit: 100})
		providertest.Must(t, err)
		var got []string
		for _, e := range log.Items {
			if strings.HasPrefix(e.Action, "consent.") {
				if e.UserID == nil || *e.UserID != guest || e.KeyID != nil {
					t.Errorf("%+v", e)
				}
				got = append(got, e.Action+" "+e.Target)
			}
		}
		if !slices.Equal(got, []string{"consent.revoke " + a.ID, "consent.grant " + a.ID}) {
			t.Errorf("got %v", got)
		}
	})
}

func TestConsentIsRememberedAndOnlyNewScopesAreAsked(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		b := f.Browser()
		if b.Complete(b.Get(a.AuthorizeURL("scope", "openid email"))).Get("code") == "" {
			t.Fatal("no code")
		}
		b.Get(a.AuthorizeURL("scope", "openid email")).Want(http.StatusSeeOther)
		b.Get(a.AuthorizeURL("scope", "openid", "prompt", "none")).Want(http.StatusSeeOther)
		wider := b.Get(a.AuthorizeURL("scope", "openid email profile webhook:read")).Want(http.StatusOK)
		if strings.Contains(wider.Body, `value="email"`) || !strings.Contains(wider.Body, `value="profile" checked`) {
			t.Fatalf("the page does not ask for the new scopes only: %s", wider.Body)
		}
		_, action, values := wider.Form()
		values["scope"] = []string{"profile"} // declines webhook:read
		result := b.Complete(b.Do("POST", f.URL+action, values))
		tokens := a.Redeem(result.Get("code")).Want(http.StatusOK).JSON()
		if tokens["scope"] != "openid email profile" {
			t.Fatalf("got scope %v", tokens["scope"])
		}
		all := b.Get(a.AuthorizeURL("scope", "openid email", "prompt", "consent")).Want(http.StatusOK)
		if !strings.Contains(all.Body, `value="email" checked`) {
			t.Fatal("prompt=consent does not ask again")
		}
	})
}

// TestConsentPageShowsTheRequestedScopes also checks that a required scope cannot be declined and
// that no scope can be added.
func TestConsentPageShowsTheRequestedScopes(t *testing.T) {
	f := providertest.OnSQLite(t)
	a, b := f.NewApp(providertest.Confidential), f.Browser()
	asked := []string{"openid", "email", "webhook:write"}
	page := b.SignIn(b.Get(a.AuthorizeURL("scope", strings.Join(asked, " "))))
	text := strings.NewReplacer("&#39;", "'", "&amp;", "&").Replace(page.Want(http.StatusOK).Body)
	for _, s := range oidc.Scopes() {
		shown := strings.Contains(text, ">"+s.ConsentTitle) && strings.Contains(text, ">"+s.ConsentDescription+"<")
		if shown != slices.Contains(asked, s.Name) {
			t.Errorf("%s: shown is %t", s.Name, shown)
		}
	}
	if strings.Count(text, ">sensitive<") != 1 {
		t.Error("not exactly the sensitive scope is marked")
	}
	_, action, values := page.Form()
	values["scope"] = []string{"email"} // declines webhook:write and tries to decline openid
	tokens := a.Redeem(b.Complete(b.Do("POST", f.URL+action, values)).Get("code")).Want(http.StatusOK)
	if got := tokens.Text("scope"); got != "openid email" {
		t.Errorf("got %q", got)
	}
	values["scope"] = []string{"webhook:read"} // was not requested
	tokens = a.Redeem(b.Complete(b.Do("POST", f.URL+action, values)).Get("code")).Want(http.StatusOK)
	if got := tokens.Text("scope"); got != "openid email" {
		t.Errorf("a scope was added to the form: %q", got)
	}
}

func TestNarrowedConsentRevokesTokensAndWiderConsentDoesNot(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a, b := f.NewApp(providertest.Confidential), f.Browser()
		agree := func(scopes string, declined string) map[string]any {
			t.Helper()
			page := b.Get(a.AuthorizeURL("scope", scopes, "prompt", "consent"))
			if strings.Contains(page.Body, `name="password"`) {
				page = b.SignIn(page)
			}
			_, action, values := page.Want(http.StatusOK).Form()
			values["scope"] = slices.DeleteFunc(values["scope"], func(s string) bool { return s == declined })
			return a.Redeem(b.Complete(b.Do("POST", f.URL+action, values)).Get("code")).Want(http.StatusOK).JSON()
		}
		first := agree("openid email offline_access", "")
		wide := agree("openid email offline_access webhook:write", "")
		f.Userinfo(first["access_token"].(string)).Want(http.StatusOK)
		narrow := agree("openid email offline_access webhook:write", "webhook:write")
		a.WantInvalid(wide["access_token"], "webhook:write was revoked")
		a.Refresh(wide["refresh_token"].(string)).WantRefused(oauth.InvalidGrant)
		f.Userinfo(narrow["access_token"].(string)).Want(http.StatusOK)
		a.Refresh(narrow["refresh_token"].(string)).Want(http.StatusOK)
		var users int
		const query = `SELECT user_count FROM oidc_client_states WHERE client_id = $1`
		providertest.Must(t, f.DB.Read(t.Context()).Row(query, a.ID).Scan(&users))
		if users != 1 {
			t.Errorf("%d users are counted", users)
		}
	})
}
