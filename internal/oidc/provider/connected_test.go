package provider

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"steward/internal/auth"
	"steward/internal/db"
)

// post sends a form of the account page.
func (b *browser) post(path string, fields ...string) *response {
	b.f.t.Helper()
	_, _, own := b.get(b.f.url + "/account").form()
	values := url.Values{"csrf": {own.Get("csrf")}}
	for i := 0; i < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	return b.do("POST", b.f.url+path, values)
}

func TestUsersSeeAndDisconnectTheirApplications(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		mine, theirs := f.browser(), f.browser()
		request := a.authorizeURL("scope", "openid email webhook:write offline_access")
		tokens := a.redeem(mine.complete(mine.get(request)).Get("code")).want(http.StatusOK).json()
		f.newUser("other@example.com", "another password")
		code := theirs.completeAs(theirs.get(request), "other@example.com", "another password").Get("code")
		others := a.redeem(code).want(http.StatusOK).json()

		page := mine.get(f.url + "/account").want(http.StatusOK)
		for _, want := range []string{
			"Test app", "rp.example.com", "See your email address", "Change: Webhooks", "Stay connected",
			"Connected since " + f.clock.Now().UTC().Format("2 January 2006"),
		} {
			if !strings.Contains(page.body, want) {
				t.Errorf("the page does not have %q", want)
			}
		}
		mine.post("/account/apps", "client", a.id).want(http.StatusSeeOther)
		mine.post("/account/apps", "client", a.id).want(http.StatusSeeOther) // again, as with two tabs
		mine.post("/account/apps", "client", "oac_unknown").want(http.StatusSeeOther)
		if strings.Contains(mine.get(f.url+"/account").body, "Test app") {
			t.Error("the application is still listed")
		}
		a.wantInvalid(tokens["access_token"], "disconnected")
		f.userinfo(others["access_token"].(string)).want(http.StatusOK)
		var revoked int
		for _, e := range f.entries() {
			if e.Action == "consent.revoke" && e.Target == a.id && *e.UserID == f.userID {
				revoked++
			}
		}
		if revoked != 1 {
			t.Errorf("%d entries in the audit log", revoked)
		}
	})
}

var keyID = regexp.MustCompile(`name="key" value="([^"]+)"`)

func TestUsersManageTheirAPIKeys(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.browser()
		b.signIn(b.get(f.url + "/account"))
		made := b.post("/account/keys", "org", f.orgID, "name", "laptop <script>", "lifetime", "30d").want(http.StatusOK)
		value := regexp.MustCompile(`sk_\w{49}`).FindString(made.body)
		if value == "" || strings.Contains(made.body, "<script>") || made.header.Get("Cache-Control") != "no-store" {
			t.Fatalf("got %v %s", made.header, made.body)
		}
		page := b.get(f.url + "/account").want(http.StatusOK)
		expires := f.clock.Now().UTC().AddDate(0, 0, 30).Format("2 January 2006")
		if strings.Contains(page.body, value) || !strings.Contains(page.body, "expires "+expires) {
			t.Errorf("the value is shown again, or the expiry is missing: %s", page.body)
		}
		for _, refused := range [][2]string{{"", "30d"}, {" ", "30d"}, {"a\u202eb", "30d"}, {"laptop", ""}, {"laptop", "99d"}} {
			b.post("/account/keys", "org", f.orgID, "name", refused[0], "lifetime", refused[1]).want(http.StatusBadRequest)
		}
		b.post("/account/keys", "org", f.otherOrg(), "name", "laptop", "lifetime", "never").want(http.StatusForbidden)
		id := keyID.FindStringSubmatch(page.body)[1]
		b.post("/account/keys/delete", "org", f.orgID, "key", id).want(http.StatusSeeOther)
		b.post("/account/keys/delete", "org", f.orgID, "key", id).want(http.StatusSeeOther)
		if keyID.MatchString(b.get(f.url + "/account").body) {
			t.Error("the key is still listed")
		}
		var actions []string
		for _, e := range f.entries() {
			if e.Target == id {
				actions = append(actions, e.Action+" by "+*e.UserID)
			}
		}
		if want := "apikey.create by " + f.userID + ", apikey.delete by " + f.userID; strings.Join(actions, ", ") != want {
			t.Errorf("the audit log has %v", actions)
		}
	})
}

// TestRolesOfAPIKeys checks that viewers have no API keys, and that members do not see those of others.
func TestRolesOfAPIKeys(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		owner := f.browser()
		owner.signIn(owner.get(f.url + "/account"))
		owner.post("/account/keys", "org", f.orgID, "name", "of the owner", "lifetime", "never").want(http.StatusOK)
		id := keyID.FindStringSubmatch(owner.get(f.url + "/account").body)[1]
		_, token, err := f.accounts.Invite(f.ctx, f.orgID, f.userID, member("new@example.com"))
		must(t, err)
		b := f.browser()
		mine := b.follow(b.submit(b.get(f.url+"/invite/"+token), "password", "a first password")).want(http.StatusOK)
		if !strings.Contains(mine.body, "Create API key") || strings.Contains(mine.body, "of the owner") {
			t.Errorf("a member sees %s", mine.body)
		}
		b.post("/account/keys/delete", "org", f.orgID, "key", id).want(http.StatusSeeOther)
		if !strings.Contains(owner.get(f.url+"/account").body, id) {
			t.Error("a member has deleted a key of the owner")
		}
		must(t, f.db.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE members SET role = $2 WHERE user_id <> $1`, f.userID, auth.Viewer)
			return err
		}))
		if strings.Contains(b.get(f.url+"/account").body, "API key") {
			t.Error("a viewer can create API keys")
		}
		b.post("/account/keys", "org", f.orgID, "name", "mine", "lifetime", "never").want(http.StatusForbidden)
		b.post("/account/keys/delete", "org", f.orgID, "key", id).want(http.StatusForbidden)
	})
}

func TestAccountFormsRequireASession(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		for _, path := range []string{
			"/account/password", "/account/profile", "/account/sessions", "/account/sign-out", "/account/apps", "/account/keys",
			"/account/keys/delete",
		} {
			b := f.browser()
			if r := b.post(path, "org", f.orgID).want(http.StatusOK); !strings.Contains(r.body, `action="/sign-in"`) {
				t.Errorf("%s: %s", path, r.body)
			}
			b.do("POST", f.url+path, url.Values{}).want(http.StatusForbidden) // without the token of a form
		}
	})
}
