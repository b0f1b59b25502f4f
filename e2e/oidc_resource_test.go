package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/oauth2"
)

// TestResourceServer gets tokens for an API with a relying party, and introspects them as that API.
// Steward refuses them. The audit log has the consents.
func TestResourceServer(t *testing.T) {
	t.Parallel()
	const api = "https://api.harbour.example.com"
	eachWithOwner(t, func(t *testing.T, s *steward) {
		server := s.application(object{"audience": api})
		s.call("POST", "/oidc/clients", object{
			"name": "Other", "description": "", "homepage_url": "https://other.example.com", "audience": api,
		}).want(http.StatusConflict)
		a := s.application(object{"grant_types": everyGrant, "scopes": []string{"openid", "email", "webhook:read"}})
		p := s.relyingParty(a, "openid", "email", "webhook:read")
		b := s.browser()
		got := b.authorize(p.config.AuthCodeURL("state", oauth2.SetAuthURLParam("resource", api)))
		token, err := p.config.Exchange(t.Context(), got.Get("code"))
		s.must(err)
		status, answer := s.post(server, "/introspect", url.Values{"token": {token.AccessToken}})
		if status != http.StatusOK || answer["active"] != true || answer["client_id"] != a.id {
			t.Errorf("introspection by the resource server: %d %v", status, answer)
		}
		s.as(token.AccessToken).call("GET", "/webhook/list", nil).want(http.StatusUnauthorized)
		if got := s.userinfoStatus(token.AccessToken); got != http.StatusUnauthorized {
			t.Errorf("userinfo: %d", got)
		}
		if !s.active(server, p.refresh(token).AccessToken) {
			t.Error("the refreshed token is for another audience")
		}
		status, answer = s.post(a, "/oauth/token", url.Values{
			"grant_type": {"client_credentials"}, "resource": {"https://unknown.example.com"},
		})
		if status != http.StatusBadRequest || answer["error"] != "invalid_target" {
			t.Errorf("an unknown resource: %d %v", status, answer)
		}
		s.call("DELETE", "/oidc/user/consent/"+a.id, nil).want(http.StatusOK)
		if s.active(server, token.AccessToken) {
			t.Error("the token is active after the consent was revoked")
		}
		log := s.call("GET", "/audit", nil).want(http.StatusOK).body
		for _, action := range []string{"consent.grant", "consent.revoke"} {
			if !strings.Contains(string(log), `"action":"`+action+`","target":"`+a.id+`"`) {
				t.Errorf("no %s in %s", action, log)
			}
		}
	})
}
