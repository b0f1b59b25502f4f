package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"steward/e2e/installation"
)

// wantRevoked checks that all tokens are refused.
func wantRevoked(h installation.Tokens, s *installation.Steward) {
	s.T.Helper()
	if got := s.UserinfoStatus(h.Access); got != http.StatusUnauthorized {
		s.T.Errorf("userinfo: %d", got)
	}
	s.As(h.Access).Call("GET", "/webhook/list", nil).Want(401)
	if _, body := s.PostForm(h.Application, "/introspect", url.Values{"token": {h.Access}}); body["active"] == true {
		s.T.Error("introspection: active")
	}
	status, _ := s.PostForm(h.Application, "/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {h.Refresh}})
	if status != http.StatusBadRequest && status != http.StatusUnauthorized {
		s.T.Errorf("refresh: %d", status)
	}
}

// wantValid checks that the access token is accepted.
func wantValid(h installation.Tokens, s *installation.Steward) {
	s.T.Helper()
	s.As(h.Access).Call("GET", "/webhook/list", nil).Want(200)
	if got := s.UserinfoStatus(h.Access); got != http.StatusOK || !s.Active(h.Application, h.Access) {
		s.T.Errorf("userinfo: %d", got)
	}
}

// listConsents returns the caller's consents as JSON.
func listConsents(s *installation.Steward) string {
	s.T.Helper()
	return string(s.Call("GET", "/oidc/user/consent", nil).Want(200).Body)
}

var stateScopes = object{"scopes": []string{"openid", "offline_access", "webhook:read"}, "grant_types": installation.EveryGrant}

// TestStatesOfClientsSecretsConsentsAndKeys tests the rows of the specification's table of states.
func TestStatesOfClientsSecretsConsentsAndKeys(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		for _, row := range []struct {
			name string
			test func(t *testing.T, s *installation.Steward)
		}{
			{"client: existing, Delete OAuth Client, deleted", testClientDeleted},
			{"secret: current, Rotate Client Secret, new secret current", testSecretRotated},
			{"secret: current, Update OAuth Client, new secret issued", testClientTypeChanged},
			{"consent: granted, Revoke Client User, revoked", testUserRevoked},
			{"consent: granted, Revoke All Client Users, revoked", testAllUsersRevoked},
			{"consent: granted, user revoke, revoked", testOwnConsentRevoked},
			{"signing key: active, Rotate Signing Keys, new key signs", testKeysRotated},
		} {
			t.Run(row.name, func(t *testing.T) {
				sub := *s
				sub.T = t
				row.test(t, &sub)
			})
		}
	})
}

// testClientDeleted checks that all tokens and consents of a deleted client are revoked.
func testClientDeleted(t *testing.T, s *installation.Steward) {
	h := s.SignIn(s.NewApplication(stateScopes))
	_, body := s.PostForm(h.Application, "/oauth/token", url.Values{"grant_type": {"client_credentials"}})
	wantValid(h, s)
	if !strings.Contains(listConsents(s), h.Application.ID) {
		t.Fatal("no consent after the sign-in")
	}
	if got := s.Call("DELETE", "/oidc/clients/"+h.Application.ID, nil).Want(200); got.Get("deleted") != true {
		t.Errorf("got %s", got.Body)
	}
	wantRevoked(h, s)
	s.As(body["access_token"].(string)).Call("GET", "/webhook/list", nil).Want(401)
	if strings.Contains(listConsents(s), h.Application.ID) {
		t.Error("the consent is still listed")
	}
	s.Call("GET", "/oidc/clients/"+h.Application.ID, nil).Want(404)
	s.Call("DELETE", "/oidc/clients/"+h.Application.ID, nil).Want(404)
}

// testSecretRotated checks that the old secret is invalid at once, and that public clients have none.
func testSecretRotated(t *testing.T, s *installation.Steward) {
	a := s.NewApplication(stateScopes)
	authenticate := func(a installation.Application) int {
		status, _ := s.PostForm(a, "/oauth/token", url.Values{"grant_type": {"client_credentials"}})
		return status
	}
	if got := authenticate(a); got != http.StatusOK {
		t.Fatalf("the first secret: %d", got)
	}
	rotated := s.Call("POST", "/oidc/clients/"+a.ID+"/rotate-secret", nil).Want(200)
	if old := authenticate(a); old != http.StatusUnauthorized || rotated.Text("client_id") != a.ID {
		t.Errorf("the old secret: %d: %s", old, rotated.Body)
	}
	if fresh := authenticate(installation.Application{ID: a.ID, Secret: rotated.Text("client_secret")}); fresh != http.StatusOK {
		t.Errorf("the new secret: %d", fresh)
	}
	public := s.NewApplication(object{"client_type": "public"})
	s.Call("POST", "/oidc/clients/"+public.ID+"/rotate-secret", nil).Want(422)
}

// testClientTypeChanged checks that a change of the type creates or removes the secret, and that other
// updates do not return one.
func testClientTypeChanged(t *testing.T, s *installation.Steward) {
	a := s.NewApplication(object{})
	update := func(body object) *installation.Response { return s.Call("PUT", "/oidc/clients/"+a.ID, body).Want(200) }
	introspect := func(secret string) int {
		status, _ := s.PostForm(installation.Application{ID: a.ID, Secret: secret}, "/introspect", url.Values{"token": {"x"}})
		return status
	}
	if got := update(object{"name": "Other", "client_type": "confidential"}); got.Get("client_secret") != nil {
		t.Errorf("an update without a change of type returns %s", got.Body)
	}
	public := update(object{"client_type": "public"})
	if public.Get("client_secret") != nil || public.Text("client.client_type") != "public" {
		t.Errorf("got %s", public.Body)
	}
	if got := introspect(a.Secret); got != http.StatusUnauthorized {
		t.Errorf("the secret of a client that became public: %d", got)
	}
	fresh := update(object{"client_type": "confidential"}).Text("client_secret")
	if old, now := introspect(a.Secret), introspect(fresh); old != http.StatusUnauthorized || now != http.StatusOK {
		t.Errorf("the old secret: %d, the new one: %d", old, now)
	}
}

// testRevoke revokes a consent by DELETE of a path. Its tokens are refused afterwards, those of another
// client are not; check is called with those of another user.
func testRevoke(s *installation.Steward, path string, check func(other installation.Tokens)) {
	s.T.Helper()
	a := s.NewApplication(stateScopes)
	guest, _ := s.Invite(a.ID+"@example.com", "member")
	p := s.NewRelyingParty(a, "openid", "offline_access", "webhook:read")
	token, _ := p.SignIn(guest)
	other := installation.Tokens{Application: a, RelyingParty: p, Access: token.AccessToken, Refresh: token.RefreshToken}
	me, elsewhere := s.SignIn(a), s.SignIn(s.NewApplication(stateScopes))
	wantValid(me, s)
	path = strings.NewReplacer("{id}", a.ID, "{me}", s.Call("GET", "/cli/auth/user", nil).Text("id")).Replace(path)
	if got := s.Call("DELETE", path, nil).Want(200); got.Get("deleted") != true {
		s.T.Errorf("got %s", got.Body)
	}
	wantRevoked(me, s)
	wantValid(elsewhere, s)
	if strings.Contains(listConsents(s), a.ID) {
		s.T.Error("the consent is still listed")
	}
	check(other)
	if strings.HasSuffix(path, "/users") {
		s.Call("DELETE", path, nil).Want(200)
	} else {
		s.Call("DELETE", path, nil).Want(404)
	}
	again := s.SignIn(a) // asks for consent again
	wantValid(again, s)
	wantRevoked(me, s)
}

func testUserRevoked(t *testing.T, s *installation.Steward) {
	testRevoke(s, "/oidc/clients/{id}/users/{me}", func(other installation.Tokens) { wantValid(other, s) })
}

func testAllUsersRevoked(t *testing.T, s *installation.Steward) {
	testRevoke(s, "/oidc/clients/{id}/users", func(other installation.Tokens) { wantRevoked(other, s) })
}

func testOwnConsentRevoked(t *testing.T, s *installation.Steward) {
	testRevoke(s, "/oidc/user/consent/{id}", func(other installation.Tokens) { wantValid(other, s) })
}

// testKeysRotated checks that the new key signs new tokens, that earlier tokens stay valid, and that
// neither a viewer nor the owner of another organization may list or rotate the keys.
func testKeysRotated(t *testing.T, s *installation.Steward) {
	a := s.NewApplication(stateScopes)
	before, published := s.SignIn(a), s.KeySet()
	viewer, _ := s.Invite("viewer@example.com", "viewer")
	scopes := []string{"openid", "oauth:write"}
	token, _ := s.NewRelyingParty(s.NewApplication(object{"scopes": scopes}), scopes...).SignIn(viewer)
	s.As(token.AccessToken).Call("POST", "/oidc/keys/rotate", nil).Want(403)
	other := s.SecondOrganization()
	for _, call := range []string{"GET /oidc/keys", "POST /oidc/keys/rotate"} {
		method, path, _ := strings.Cut(call, " ")
		refused := other.Call(method, path, nil).Want(403)
		if !strings.Contains(string(refused.Body), "the role owner or admin in the first organization") {
			t.Errorf("%s as the owner of another organization: %s", call, refused.Body)
		}
	}
	if s.KeyID(s.SignIn(a).Access) != s.KeyID(before.Access) {
		t.Error("somebody else rotated the keys")
	}
	if got := s.Call("POST", "/oidc/keys/rotate", nil).Want(200); got.Get("rotated") != true {
		t.Fatalf("got %s", got.Body)
	}
	after := s.SignIn(a)
	for _, pair := range [][2]string{{before.Access, after.Access}, {before.IDToken, after.IDToken}} {
		if was, is := s.KeyID(pair[0]), s.KeyID(pair[1]); was == is || !strings.Contains(published, is) {
			t.Errorf("%s signed before, %s after; published before were %s", was, is, published)
		}
	}
	wantValid(before, s)
	wantValid(after, s)
	p := s.NewRelyingParty(a, "openid") // reads the key set again
	for _, idToken := range []string{before.IDToken, after.IDToken} {
		_, err := p.Provider.Verifier(&oidc.Config{ClientID: a.ID}).Verify(t.Context(), idToken)
		s.Must(err)
	}
	p.Refresh(&oauth2.Token{AccessToken: before.Access, RefreshToken: before.Refresh})
}

func TestAccessTokenIsLimitedByCurrentRole(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		a := s.NewApplication(object{
			"scopes": []string{"openid", "oauth:read", "webhook:read", "webhook:write"}, "grant_types": installation.EveryGrant,
		})
		b, userID := s.Invite("grace@example.com", "viewer")
		token, _ := s.NewRelyingParty(a, "openid", "oauth:read", "webhook:read", "webhook:write").SignIn(b)
		as := s.As(token.AccessToken)
		hook := object{"name": "x"}
		as.Call("GET", "/webhook/list", nil).Want(200)
		as.Call("GET", "/oidc/clients", nil).Want(200)
		as.Call("POST", "/webhook/create", hook).Want(403)
		as.Call("GET", "/oidc/org/members", nil).Want(403)
		as.Call("GET", "/thread", nil).Want(403) // without the scope
		s.Call("PUT", "/oidc/org/members/"+userID, object{"role": "admin"}).Want(200)
		as.Call("POST", "/webhook/create", hook).Want(201)
		as.Call("DELETE", "/oidc/clients/"+a.ID, nil).Want(403) // without oauth:write
		s.Call("PUT", "/oidc/org/members/"+userID, object{"role": "viewer"}).Want(200)
		as.Call("POST", "/webhook/create", hook).Want(403)
		s.Call("DELETE", "/oidc/org/members/"+userID, nil).Want(204)
		as.Call("GET", "/webhook/list", nil).Want(401)
		_, machine := s.PostForm(a, "/oauth/token", url.Values{"grant_type": {"client_credentials"}})
		client := s.As(machine["access_token"].(string)) // acts as itself, whatever its users may do
		client.Call("POST", "/webhook/create", hook).Want(201)
		client.Call("DELETE", "/oidc/clients/"+a.ID, nil).Want(403)
	})
}

// TestRolesOfClientRoutes checks which role may use which route. A caller without the role is refused
// before anything is looked up.
func TestRolesOfClientRoutes(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	id := s.NewApplication(object{}).ID
	scopes := []string{"openid", "account:read", "account:write", "member:read", "oauth:read", "oauth:write"}
	tool := s.NewRelyingParty(s.NewApplication(object{"scopes": scopes}), scopes...)
	callers := []*installation.Steward{s}
	for _, role := range []string{"admin", "member", "viewer"} {
		b, _ := s.Invite(role+"@example.com", role)
		token, _ := tool.SignIn(b)
		callers = append(callers, s.As(token.AccessToken))
	}
	confined := s.Call("POST", "/cli/apikey", object{"name": "k", "projectId": "p1"}).Want(201).Text("value")
	callers = append(callers, s.As(confined), s.As(""))
	for _, c := range []struct {
		route string
		want  [6]int // owner, admin, member, viewer, project key, no key
	}{
		{"GET /oidc/clients", [6]int{200, 200, 200, 200, 403, 401}},
		{"GET /oidc/clients/{id}", [6]int{200, 200, 200, 200, 403, 401}},
		{"GET /oidc/clients/activity", [6]int{200, 200, 200, 200, 403, 401}},
		{"GET /oidc/clients/{id}/activity", [6]int{200, 200, 200, 200, 403, 401}},
		{"GET /oidc/scopes", [6]int{200, 200, 200, 200, 403, 401}},
		{"GET /oidc/user/consent", [6]int{200, 200, 200, 200, 200, 401}},
		{"DELETE /oidc/user/consent/none", [6]int{404, 404, 404, 404, 404, 401}},
		{"POST /oidc/clients", [6]int{422, 422, 403, 403, 403, 401}},
		{"PUT /oidc/clients/{id}", [6]int{200, 200, 403, 403, 403, 401}},
		{"DELETE /oidc/clients/none", [6]int{404, 404, 403, 403, 403, 401}},
		{"POST /oidc/clients/{id}/rotate-secret", [6]int{200, 200, 403, 403, 403, 401}},
		{"GET /oidc/clients/{id}/users", [6]int{200, 200, 403, 403, 403, 401}},
		{"DELETE /oidc/clients/{id}/users", [6]int{200, 200, 403, 403, 403, 401}},
		{"DELETE /oidc/clients/{id}/users/none", [6]int{404, 404, 403, 403, 403, 401}},
		{"GET /oidc/org/members", [6]int{200, 200, 403, 403, 403, 401}},
		{"POST /oidc/keys/rotate", [6]int{200, 200, 403, 403, 403, 401}},
	} {
		method, path, _ := strings.Cut(strings.ReplaceAll(c.route, "{id}", id), " ")
		for i, caller := range callers {
			if got := caller.Call(method, path, object{}).Status; got != c.want[i] {
				t.Errorf("%s: caller %d gets %d, want %d", c.route, i, got, c.want[i])
			}
		}
	}
}
