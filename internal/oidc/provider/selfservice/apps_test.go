package selfservice_test

import (
	"net/http"
	"strings"
	"testing"

	"steward/internal/oidc/provider/providertest"
)

func TestUsersSeeAndDisconnectTheirApplications(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		mine, theirs := f.Browser(), f.Browser()
		request := a.AuthorizeURL("scope", "openid email webhook:write offline_access")
		tokens := a.Redeem(mine.Complete(mine.Get(request)).Get("code")).Want(http.StatusOK).JSON()
		f.NewUser("other@example.com", "another password")
		code := theirs.CompleteAs(theirs.Get(request), "other@example.com", "another password").Get("code")
		others := a.Redeem(code).Want(http.StatusOK).JSON()

		page := mine.Get(f.URL + "/account").Want(http.StatusOK)
		for _, want := range []string{
			"Test app", "rp.example.com", "See your email address", "Change: Webhooks", "Stay connected",
			"Connected since " + f.Clock.Now().UTC().Format("2 January 2006"),
		} {
			if !strings.Contains(page.Body, want) {
				t.Errorf("the page does not have %q", want)
			}
		}
		mine.Post("/account/apps", "client", a.ID).Want(http.StatusSeeOther)
		mine.Post("/account/apps", "client", a.ID).Want(http.StatusSeeOther) // again, as with two tabs
		mine.Post("/account/apps", "client", "oac_unknown").Want(http.StatusSeeOther)
		if strings.Contains(mine.Get(f.URL+"/account").Body, "Test app") {
			t.Error("the application is still listed")
		}
		a.WantInvalid(tokens["access_token"], "disconnected")
		f.Userinfo(others["access_token"].(string)).Want(http.StatusOK)
		var revoked int
		for _, e := range f.Entries() {
			if e.Action == "consent.revoke" && e.Target == a.ID && *e.UserID == f.UserID {
				revoked++
			}
		}
		if revoked != 1 {
			t.Errorf("%d entries in the audit log", revoked)
		}
	})
}
