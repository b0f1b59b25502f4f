package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// tokens are what a relying party has of a user.
type tokens struct {
	a       application
	p       *relyingParty
	access  string
	refresh string
	idToken string
}

// signIn signs the first owner in at a client.
func (s *steward) signIn(a application) tokens {
	s.t.Helper()
	p := s.relyingParty(a, "openid", "offline_access", "webhook:read")
	token, _ := p.signIn(s.browser())
	idToken, _ := token.Extra("id_token").(string)
	return tokens{a, p, token.AccessToken, token.RefreshToken, idToken}
}

// wantRevoked checks that all tokens are refused.
func (h tokens) wantRevoked(s *steward) {
	s.t.Helper()
	if got := s.userinfoStatus(h.access); got != http.StatusUnauthorized {
		s.t.Errorf("userinfo: %d", got)
	}
	s.as(h.access).call("GET", "/webhook/list", nil).want(401)
	if _, body := s.post(h.a, "/introspect", url.Values{"token": {h.access}}); body["active"] == true {
		s.t.Error("introspection: active")
	}
	status, _ := s.post(h.a, "/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {h.refresh}})
	if status != http.StatusBadRequest && status != http.StatusUnauthorized {
		s.t.Errorf("refresh: %d", status)
	}
}

// wantValid checks that the access token is accepted.
func (h tokens) wantValid(s *steward) {
	s.t.Helper()
	s.as(h.access).call("GET", "/webhook/list", nil).want(200)
	if got := s.userinfoStatus(h.access); got != http.StatusOK || !s.active(h.a, h.access) {
		s.t.Errorf("userinfo: %d", got)
	}
}

// consents returns the caller's consents as JSON.
func (s *steward) consents() string {
	s.t.Helper()
	return string(s.call("GET", "/oidc/user/consent", nil).want(200).body)
}

var stateScopes = object{"scopes": []string{"openid", "offline_access", "webhook:read"}, "grant_types": everyGrant}

// TestStatesOfClientsSecretsConsentsAndKeys tests the rows of the specification's table of states.
func TestStatesOfClientsSecretsConsentsAndKeys(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		for _, row := range []struct {
			name string
			test func(t *testing.T, s *steward)
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
				sub.t = t
				row.test(t, &sub)
			})
		}
	})
}

// testClientDeleted checks that all tokens and consents of a deleted client are revoked.
func testClientDeleted(t *testing.T, s *steward) {
	h := s.signIn(s.application(stateScopes))
	_, body := s.post(h.a, "/oauth/token", url.Values{"grant_type": {"client_credentials"}})
	h.wantValid(s)
	if !strings.Contains(s.consents(), h.a.id) {
		t.Fatal("no consent after the sign-in")
	}
	if got := s.call("DELETE", "/oidc/clients/"+h.a.id, nil).want(200); got.get("deleted") != true {
		t.Errorf("got %s", got.body)
	}
	h.wantRevoked(s)
	s.as(body["access_token"].(string)).call("GET", "/webhook/list", nil).want(401)
	if strings.Contains(s.consents(), h.a.id) {
		t.Error("the consent is still listed")
	}
	s.call("GET", "/oidc/clients/"+h.a.id, nil).want(404)
	s.call("DELETE", "/oidc/clients/"+h.a.id, nil).want(404)
}

// testSecretRotated checks that the old secret is invalid at once, and that public clients have none.
func testSecretRotated(t *testing.T, s *steward) {
	a := s.application(stateScopes)
	authenticate := func(a application) int {
		status, _ := s.post(a, "/oauth/token", url.Values{"grant_type": {"client_credentials"}})
		return status
	}
	if got := authenticate(a); got != http.StatusOK {
		t.Fatalf("the first secret: %d", got)
	}
	rotated := s.call("POST", "/oidc/clients/"+a.id+"/rotate-secret", nil).want(200)
	if old := authenticate(a); old != http.StatusUnauthorized || rotated.text("client_id") != a.id {
		t.Errorf("the old secret: %d: %s", old, rotated.body)
	}
	if fresh := authenticate(application{a.id, rotated.text("client_secret")}); fresh != http.StatusOK {
		t.Errorf("the new secret: %d", fresh)
	}
	public := s.application(object{"client_type": "public"})
	s.call("POST", "/oidc/clients/"+public.id+"/rotate-secret", nil).want(422)
}

// testClientTypeChanged checks that a change of the type creates or removes the secret, and that other
// updates do not return one.
func testClientTypeChanged(t *testing.T, s *steward) {
	a := s.application(object{})
	update := func(body object) *response { return s.call("PUT", "/oidc/clients/"+a.id, body).want(200) }
	introspect := func(secret string) int {
		status, _ := s.post(application{a.id, secret}, "/introspect", url.Values{"token": {"x"}})
		return status
	}
	if got := update(object{"name": "Other", "client_type": "confidential"}); got.get("client_secret") != nil {
		t.Errorf("an update without a change of type returns %s", got.body)
	}
	public := update(object{"client_type": "public"})
	if public.get("client_secret") != nil || public.text("client.client_type") != "public" {
		t.Errorf("got %s", public.body)
	}
	if got := introspect(a.secret); got != http.StatusUnauthorized {
		t.Errorf("the secret of a client that became public: %d", got)
	}
	fresh := update(object{"client_type": "confidential"}).text("client_secret")
	if old, now := introspect(a.secret), introspect(fresh); old != http.StatusUnauthorized || now != http.StatusOK {
		t.Errorf("the old secret: %d, the new one: %d", old, now)
	}
}

// testRevoke revokes a consent by DELETE of a path. Its tokens are refused afterwards, those of another
// client are not; check is called with those of another user.
func (s *steward) testRevoke(path string, check func(other tokens)) {
	s.t.Helper()
	a := s.application(stateScopes)
	guest, _ := s.invite(a.id+"@example.com", "member")
	p := s.relyingParty(a, "openid", "offline_access", "webhook:read")
	token, _ := p.signIn(guest)
	other := tokens{a: a, p: p, access: token.AccessToken, refresh: token.RefreshToken}
	me, elsewhere := s.signIn(a), s.signIn(s.application(stateScopes))
	me.wantValid(s)
	path = strings.NewReplacer("{id}", a.id, "{me}", s.call("GET", "/cli/auth/user", nil).text("id")).Replace(path)
	if got := s.call("DELETE", path, nil).want(200); got.get("deleted") != true {
		s.t.Errorf("got %s", got.body)
	}
	me.wantRevoked(s)
	elsewhere.wantValid(s)
	if strings.Contains(s.consents(), a.id) {
		s.t.Error("the consent is still listed")
	}
	check(other)
	if strings.HasSuffix(path, "/users") {
		s.call("DELETE", path, nil).want(200)
	} else {
		s.call("DELETE", path, nil).want(404)
	}
	again := s.signIn(a) // asks for consent again
	again.wantValid(s)
	me.wantRevoked(s)
}

func testUserRevoked(t *testing.T, s *steward) {
	s.testRevoke("/oidc/clients/{id}/users/{me}", func(other tokens) { other.wantValid(s) })
}

func testAllUsersRevoked(t *testing.T, s *steward) {
	s.testRevoke("/oidc/clients/{id}/users", func(other tokens) { other.wantRevoked(s) })
}

func testOwnConsentRevoked(t *testing.T, s *steward) {
	s.testRevoke("/oidc/user/consent/{id}", func(other tokens) { other.wantValid(s) })
}

// testKeysRotated checks that the new key signs new tokens, that earlier tokens stay valid, and that a
// viewer may not rotate the keys.
func testKeysRotated(t *testing.T, s *steward) {
	a := s.application(stateScopes)
	before, published := s.signIn(a), s.keySet()
	viewer, _ := s.invite("viewer@example.com", "viewer")
	scopes := []string{"openid", "oauth:write"}
	token, _ := s.relyingParty(s.application(object{"scopes": scopes}), scopes...).signIn(viewer)
	s.as(token.AccessToken).call("POST", "/oidc/keys/rotate", nil).want(403)
	if s.kidOf(s.signIn(a).access) != s.kidOf(before.access) {
		t.Error("a viewer rotated the keys")
	}
	if got := s.call("POST", "/oidc/keys/rotate", nil).want(200); got.get("rotated") != true {
		t.Fatalf("got %s", got.body)
	}
	after := s.signIn(a)
	for _, pair := range [][2]string{{before.access, after.access}, {before.idToken, after.idToken}} {
		if was, is := s.kidOf(pair[0]), s.kidOf(pair[1]); was == is || !strings.Contains(published, is) {
			t.Errorf("%s signed before, %s after; published before were %s", was, is, published)
		}
	}
	before.wantValid(s)
	after.wantValid(s)
	p := s.relyingParty(a, "openid") // reads the key set again
	for _, idToken := range []string{before.idToken, after.idToken} {
		_, err := p.provider.Verifier(&oidc.Config{ClientID: a.id}).Verify(t.Context(), idToken)
		s.must(err)
	}
	p.refresh(&oauth2.Token{AccessToken: before.access, RefreshToken: before.refresh})
}

func TestAccessTokenIsLimitedByCurrentRole(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		a := s.application(object{
			"scopes": []string{"openid", "oauth:read", "webhook:read", "webhook:write"}, "grant_types": everyGrant,
		})
		b, userID := s.invite("grace@example.com", "viewer")
		token, _ := s.relyingParty(a, "openid", "oauth:read", "webhook:read", "webhook:write").signIn(b)
		as := s.as(token.AccessToken)
		hook := object{"name": "x"}
		as.call("GET", "/webhook/list", nil).want(200)
		as.call("GET", "/oidc/clients", nil).want(200)
		as.call("POST", "/webhook/create", hook).want(403)
		as.call("GET", "/oidc/org/members", nil).want(403)
		as.call("GET", "/thread", nil).want(403) // without the scope
		s.call("PUT", "/oidc/org/members/"+userID, object{"role": "admin"}).want(200)
		as.call("POST", "/webhook/create", hook).want(201)
		as.call("DELETE", "/oidc/clients/"+a.id, nil).want(403) // without oauth:write
		s.call("PUT", "/oidc/org/members/"+userID, object{"role": "viewer"}).want(200)
		as.call("POST", "/webhook/create", hook).want(403)
		s.call("DELETE", "/oidc/org/members/"+userID, nil).want(204)
		as.call("GET", "/webhook/list", nil).want(401)
		_, machine := s.post(a, "/oauth/token", url.Values{"grant_type": {"client_credentials"}})
		client := s.as(machine["access_token"].(string)) // acts as itself, whatever its users may do
		client.call("POST", "/webhook/create", hook).want(201)
		client.call("DELETE", "/oidc/clients/"+a.id, nil).want(403)
	})
}

// TestRolesOfClientRoutes checks which role may use which route. A caller without the role is refused
// before anything is looked up.
func TestRolesOfClientRoutes(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		id := s.application(object{}).id
		scopes := []string{"openid", "account:read", "account:write", "member:read", "oauth:read", "oauth:write"}
		tool := s.relyingParty(s.application(object{"scopes": scopes}), scopes...)
		callers := []*steward{s}
		for _, role := range []string{"admin", "member", "viewer"} {
			b, _ := s.invite(role+"@example.com", role)
			token, _ := tool.signIn(b)
			callers = append(callers, s.as(token.AccessToken))
		}
		confined := s.call("POST", "/cli/apikey", object{"name": "k", "projectId": "p1"}).want(201).text("value")
		callers = append(callers, s.as(confined), s.as(""))
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
				if got := caller.call(method, path, object{}).status; got != c.want[i] {
					t.Errorf("%s: caller %d gets %d, want %d", c.route, i, got, c.want[i])
				}
			}
		}
	})
}
