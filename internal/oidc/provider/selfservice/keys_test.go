package selfservice_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc/provider/providertest"
)

var keyID = regexp.MustCompile(`name="key" value="([^"]+)"`)

func TestUsersManageTheirAPIKeys(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		b := f.Browser()
		b.SignIn(b.Get(f.URL + "/account"))
		made := b.Post("/account/keys", "org", f.OrgID, "name", "laptop <script>", "lifetime", "30d").
			Want(http.StatusOK)
		value := regexp.MustCompile(`sk_\w{49}`).FindString(made.Body)
		if value == "" || strings.Contains(made.Body, "<script>") || made.Header.Get("Cache-Control") != "no-store" {
			t.Fatalf("got %v %s", made.Header, made.Body)
		}
		page := b.Get(f.URL + "/account").Want(http.StatusOK)
		expires := f.Clock.Now().UTC().AddDate(0, 0, 30).Format("2 January 2006")
		if strings.Contains(page.Body, value) || !strings.Contains(page.Body, "expires "+expires) {
			t.Errorf("the value is shown again, or the expiry is missing: %s", page.Body)
		}
		for _, refused := range [][2]string{
			{"", "30d"},
			{" ", "30d"},
			{"a\u202eb", "30d"},
			{"laptop", ""},
			{"laptop", "99d"},
		} {
			b.Post("/account/keys", "org", f.OrgID, "name", refused[0], "lifetime", refused[1]).
				Want(http.StatusBadRequest)
		}
		b.Post("/account/keys", "org", f.NewOrg(), "name", "laptop", "lifetime", "never").Want(http.StatusForbidden)
		id := keyID.FindStringSubmatch(page.Body)[1]
		b.Post("/account/keys/delete", "org", f.OrgID, "key", id).Want(http.StatusSeeOther)
		b.Post("/account/keys/delete", "org", f.OrgID, "key", id).Want(http.StatusSeeOther)
		if keyID.MatchString(b.Get(f.URL + "/account").Body) {
			t.Error("the key is still listed")
		}
		var actions []string
		for _, e := range f.Entries() {
			if e.Target == id {
				actions = append(actions, e.Action+" by "+*e.UserID)
			}
		}
		want := "apikey.create by " + f.UserID + ", apikey.delete by " + f.UserID
		if strings.Join(actions, ", ") != want {
			t.Errorf("the audit log has %v", actions)
		}
	})
}

// TestRolesOfAPIKeys checks that viewers have no API keys, and that members do not see those of others.
func TestRolesOfAPIKeys(t *testing.T) {
	f := providertest.OnSQLite(t)
	owner := f.Browser()
	owner.SignIn(owner.Get(f.URL + "/account"))
	owner.Post("/account/keys", "org", f.OrgID, "name", "of the owner", "lifetime", "never").Want(http.StatusOK)
	id := keyID.FindStringSubmatch(owner.Get(f.URL + "/account").Body)[1]
	b := f.Browser()
	b.Submit(b.Get(f.Invite(f.OrgID, "new@example.com", auth.Member)), "password", "a first password").Want(http.StatusSeeOther)
	mine := b.Get(f.URL + "/account").Want(http.StatusOK)
	if !strings.Contains(mine.Body, "Create API key") || strings.Contains(mine.Body, "of the owner") {
		t.Errorf("a member sees %s", mine.Body)
	}
	b.Post("/account/keys/delete", "org", f.OrgID, "key", id).Want(http.StatusSeeOther)
	if !strings.Contains(owner.Get(f.URL+"/account").Body, id) {
		t.Error("a member has deleted a key of the owner")
	}
	providertest.Must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE members SET role = $2 WHERE user_id <> $1`, f.UserID, auth.Viewer)
		return err
	}))
	if strings.Contains(b.Get(f.URL+"/account").Body, "API key") {
		t.Error("a viewer can create API keys")
	}
	b.Post("/account/keys", "org", f.OrgID, "name", "mine", "lifetime", "never").Want(http.StatusForbidden)
	b.Post("/account/keys/delete", "org", f.OrgID, "key", id).Want(http.StatusForbidden)
}
