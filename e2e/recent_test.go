package e2e

import (
	"net/http"
	"strings"
	"testing"

	"steward/e2e/installation"
)

// TestStaleCookieMakesNothingThatLasts has an owner who signed in an hour ago read, presign and try to make an API key.
// testdata/permissions.txt has the routes that are refused.
func TestStaleCookieMakesNothingThatLasts(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		s.NewBucket("photos")
		owner := s.BrowserOf(installation.AdminEmail, installation.AdminPassword).EnterConsole()
		call := func(method, path string) *installation.Response {
			r, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/console/api"+path, nil)
			s.Must(err)
			if method == "POST" || method == "PUT" {
				r.Header.Set("Content-Type", "application/json")
				r.Body = http.NoBody
			}
			r.Header.Set("X-Steward-Console", "1")
			res, err := owner.HTTP.Do(r)
			s.Must(err)
			got, err := installation.ReadResponse(t, res)
			s.Must(err)
			return got
		}
		resources := "/resource/" + s.OrgID + "/local"
		shown := func() bool {
			return strings.Contains(string(call("GET", resources).Want(200).Body), "S3_SECRET_ACCESS_KEY")
		}
		if !shown() {
			t.Error("a recent sign-in does not see credentials")
		}
		hook := s.NewHook("orders")
		settings := func(url, credential string) object {
			return object{"type": "url", "config": object{
				"url": url, "disabled": true, "headers": object{"Authorization": credential},
			}}
		}
		made := s.Call("POST", "/webhook/destination-create/"+hook.ID, settings("https://a.example", "a credential")).Want(201)
		s.Ingest(hook, "{}", "Authorization", "a credential")
		credentials := func() int {
			n := 0
			for _, path := range []string{"/webhook/destination-list/", "/webhook/receipt-list/"} {
				n += strings.Count(string(call("GET", path+hook.ID).Want(200).Body), "a credential")
			}
			return n
		}
		if credentials() != 2 {
			t.Error("a recent sign-in does not see credentials in headers")
		}
		s.AgeSignIns()
		if credentials() != 0 {
			t.Error("a stale cookie sees credentials in headers")
		}
		if shown() {
			t.Error("a stale cookie sees credentials")
		}
		call("GET", "/storage/presign/photos?key=k&operation=upload").Want(200)
		page := owner.PostAccount("/account/keys", map[string]string{"org": s.OrgID, "name": "k", "lifetime": "never"})
		if page.Status != http.StatusForbidden || strings.Contains(page.Body, "sk_") {
			t.Errorf("the account page makes an API key: %d %s", page.Status, page.Body)
		}

		page = owner.Do("GET", s.URL+"/console/sign-in?recent=1", nil)
		owner.Submit(page, map[string]string{"email": owner.Email, "password": owner.Password})
		if !shown() {
			t.Error("credentials are missing after the sign-in")
		}
		// A form that was filled in with what a stale cookie sees changes the rest.
		s.Call("PUT", "/webhook/destination-update/"+hook.ID+"/"+made.Text("id"), settings("https://b.example", "***")).Want(200)
		if credentials() != 2 {
			t.Error("a mask has replaced a credential")
		}
		if got := call("POST", "/cli/apikey"); got.Status == 403 {
			t.Errorf("after the sign-in: %s", got.Body)
		}
	})
}
