package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"steward/e2e/installation"
)

// TestResourceServer gets tokens for an API with a relying party, and introspects them as that API.
// Steward refuses them. The audit log has the consents.
func TestResourceServer(t *testing.T) {
	t.Parallel()
	const api = "https://api.harbour.example.com"
	s := installation.StartWithOwner(t, "sqlite")
	server := s.NewApplication(object{"audience": api})
	s.Call("POST", "/oidc/clients", object{
		"name": "Other", "description": "", "homepage_url": "https://other.example.com", "audience": api,
	}).Want(http.StatusConflict)
	a := s.NewApplication(object{"grant_types": installation.EveryGrant, "scopes": []string{"openid", "email", "webhook:read"}})
	p := s.NewRelyingParty(a, "openid", "email", "webhook:read")
	b := s.NewBrowser()
	got := b.Authorize(p.Config.AuthCodeURL("state", oauth2.SetAuthURLParam("resource", api)))
	token, err := p.Config.Exchange(t.Context(), got.Get("code"))
	s.Must(err)
	status, answer := s.PostForm(server, "/introspect", url.Values{"token": {token.AccessToken}})
	if status != http.StatusOK || answer["active"] != true || answer["client_id"] != a.ID {
		t.Errorf("introspection by the resource server: %d %v", status, answer)
	}
	s.As(token.AccessToken).Call("GET", "/webhook/list", nil).Want(http.StatusUnauthorized)
	if got := s.UserinfoStatus(token.AccessToken); got != http.StatusUnauthorized {
		t.Errorf("userinfo: %d", got)
	}
	if !s.Active(server, p.Refresh(token).AccessToken) {
		t.Error("the refreshed token is for another audience")
	}
	status, answer = s.PostForm(a, "/oauth/token", url.Values{
		"grant_type": {"client_credentials"}, "resource": {"https://unknown.example.com"},
	})
	if status != http.StatusBadRequest || answer["error"] != "invalid_target" {
		t.Errorf("an unknown resource: %d %v", status, answer)
	}
	s.Call("DELETE", "/oidc/user/consent/"+a.ID, nil).Want(http.StatusOK)
	if s.Active(server, token.AccessToken) {
		t.Error("the token is active after the consent was revoked")
	}
	log := s.Call("GET", "/audit", nil).Want(http.StatusOK).Body
	for _, action := range []string{"consent.grant", "consent.revoke"} {
		if !strings.Contains(string(log), `"action":"`+action+`","target":"`+a.ID+`"`) {
			t.Errorf("no %s in %s", action, log)
		}
	}
}

// TestResourceServerOfAnotherOrganization has a client request tokens of its own for the audience of another
// organization, which admits it later.
func TestResourceServerOfAnotherOrganization(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		const api = "https://api.harbour.example.com"
		server := s.NewApplication(object{"audience": api})
		b := s.SecondOrganization().NewApplication(object{"grant_types": []string{"client_credentials"}})
		request := url.Values{"grant_type": {"client_credentials"}, "resource": {api}}
		if status, answer := s.PostForm(b, "/oauth/token", request); status != http.StatusBadRequest || answer["error"] != "invalid_target" {
			t.Errorf("a client of another organization: %d %v", status, answer["error"])
		}
		path := "/oidc/clients/" + server.ID
		s.Call("PUT", path, object{"allowed_clients": []string{b.ID}}).Want(http.StatusOK)
		if got := s.Call("GET", path, nil).Want(http.StatusOK).Body; !strings.Contains(string(got), `"allowed_clients":["`+b.ID+`"]`) {
			t.Errorf("the client is shown as %s", got)
		}
		status, answer := s.PostForm(b, "/oauth/token", request)
		if token, _ := answer["access_token"].(string); status != http.StatusOK || !s.Active(server, token) {
			t.Errorf("an allowed client of another organization: %d %v", status, answer["error"])
		}
	})
}
