package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"steward/e2e/installation"
)

// needRecent are the operations that make, or remove, what lasts longer than a session. They refuse the cookie of
// a user who signed in long ago.
var needRecent = []string{
	"updateOrganization", "deleteOrganization",
	"inviteMember", "updateMember", "renewInvitation", "resetMemberPassword", "clearMemberFactors", "removeMember",
	"createOAuthClient", "updateOAuthClient", "deleteOAuthClient", "rotateOAuthClientSecret", "rotateSigningKeys",
	"createUpstream", "updateUpstream", "deleteUpstream", "createRegistrationToken", "deleteRegistrationToken",
	"createAPIKey", "deleteAPIKey",
	"createResources", "deleteResources", "rotateResource",
	"createWebhook", "rotateWebhookURL", "createDestination",
}

// TestStaleCookieMakesNothingThatLasts sends every operation with the cookie of an owner who signed in an hour ago.
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
		s.AgeSignIns()

		var doc struct {
			Paths map[string]map[string]struct{ OperationID string }
		}
		s.Call("GET", "/openapi.json", nil).Want(200).Decode(&doc)
		var refused []string
		for path, operations := range doc.Paths {
			for method, o := range operations {
				got := call(strings.ToUpper(method), withoutIDs(path))
				if strings.Contains(string(got.Body), "reauthentication_required") {
					got.Want(403)
					refused = append(refused, o.OperationID)
				}
			}
		}
		slices.Sort(refused)
		if want := slices.Sorted(slices.Values(needRecent)); !slices.Equal(refused, want) {
			t.Errorf("refused are\n%v, want\n%v", refused, want)
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
		if got := call("POST", "/cli/apikey"); got.Status == 403 {
			t.Errorf("after the sign-in: %s", got.Body)
		}
	})
}

// withoutIDs returns a path with ids of nothing.
func withoutIDs(pattern string) string {
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			parts[i] = "none"
		}
	}
	path := strings.Join(parts, "/")
	if strings.HasPrefix(pattern, "/webhook/tail") {
		path += "?follow=false"
	}
	return path
}
