package server

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"steward/internal/auth"
	"steward/internal/web"
)

// TestRecentSignInIsAskedOfStaleBrowsers also checks that keys and tokens, which are never stale, pass.
func TestRecentSignInIsAskedOfStaleBrowsers(t *testing.T) {
	route := web.Route{Permission: auth.WriteMembers}
	for name, test := range map[string]struct {
		route  web.Route
		caller auth.Caller
		status int
		code   string
	}{
		"stale":               {route.RecentSignIn(), auth.Caller{Role: auth.Owner, Stale: true}, 403, "reauthentication_required"},
		"stale, without role": {route.RecentSignIn(), auth.Caller{Role: auth.Viewer, Stale: true}, 403, "forbidden"},
		"stale, other route":  {route, auth.Caller{Role: auth.Owner, Stale: true}, 200, ""},
		"recent":              {route.RecentSignIn(), auth.Caller{Role: auth.Owner}, 200, ""},
		"API key":             {route.RecentSignIn(), auth.Caller{Role: auth.Owner, KeyID: "key_1"}, 200, ""},
	} {
		guard := new(Authenticator).guard(func(http.Header, *http.Request) (*auth.Caller, error) { return &test.caller, nil })
		rec := httptest.NewRecorder()
		passed := guard(test.route, rec, httptest.NewRequest("POST", "/", nil)) != nil
		if passed != (test.status == 200) || rec.Code != test.status || !strings.Contains(rec.Body.String(), test.code) {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
}

func TestRoutesThatNeedARecentSignIn(t *testing.T) {
	var got []string
	for _, r := range (&Server{}).Routes() {
		if r.NeedsRecentSignIn() {
			got = append(got, r.ID)
		}
	}
	want := []string{
		"updateOrganization", "deleteOrganization",
		"createAlert", "updateAlert",
		"inviteMember", "updateMember", "renewInvitation", "resetMemberPassword", "clearMemberFactors", "removeMember",
		"createOAuthClient", "updateOAuthClient", "deleteOAuthClient", "rotateOAuthClientSecret", "rotateSigningKeys",
		"createUpstream", "updateUpstream", "deleteUpstream", "createRegistrationToken", "deleteRegistrationToken",
		"createAPIKey", "deleteAPIKey",
		"createResources", "deleteResources", "rotateResource",
		"createWebhook", "getWebhookURL", "rotateWebhookURL", "createDestination", "updateDestination", "rotateDestinationSecret",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
