package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	rp "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// held is what a relying party holds of a user.
type held struct {
	a       application
	p       *party
	access  string
	refresh string
	idToken string
}

func (s *steward) hold(a application) held {
	s.t.Helper()
	p := s.party(a, "openid", "offline_access", "webhook:read")
	token, _ := p.signIn(s.visitor())
	idToken, _ := token.Extra("id_token").(string)
	return held{a, p, token.AccessToken, token.RefreshToken, idToken}
}

// wantDead wants that nothing of it works any more, at once.
func (h held) wantDead(s *steward) {
	s.t.Helper()
	if got := s.userinfoStatus(h.access); got != http.StatusUnauthorized {
		s.t.Errorf("userinfo gives %d", got)
	}
	s.as(h.access).call("GET", "/webhook/list", nil).want(401)
	if _, body := s.post(h.a, "/introspect", url.Values{"token": {h.access}}); body["active"] == true {
		s.t.Error("introspection calls it active")
	}
	status, _ := s.post(h.a, "/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {h.refresh}})
	if status != http.StatusBadRequest && status != http.StatusUnauthorized {
		s.t.Errorf("refresh gives %d", status)
	}
}

func (h held) wantAlive(s *steward) {
	s.t.Helper()
	s.as(h.access).call("GET", "/webhook/list", nil).want(200)
	if got := s.userinfoStatus(h.access); got != http.StatusOK || !s.active(h.a, h.access) {
		s.t.Errorf("userinfo gives %d", got)
	}
}

// consents are the ids of the clients that the caller has agreed to.
func (s *steward) consents() string {
	s.t.Helper()
	return string(s.call("GET", "/oidc/user/consent", nil).want(200).body)
}

var stateScopes = map[string]any{"scopes": []string{"openid", "offline_access", "webhook:read"}, "grant_types": everyGrant}

// The specification's table of states, row by row, as far as it is about clients, secrets, consents and keys.
func TestStatesOfClients(t *testing.T) {
	eachSignIn(t, func(t *testing.T, s *steward) {
		for _, row := range []struct {
			name string
			test func(t *testing.T, s *steward)
		}{
			{"client: existing, Delete OAuth Client, deleted", stateDeleted},
			{"secret: current, Rotate Client Secret, new secret current", stateRotated},
			{"secret: current, Update OAuth Client, new secret issued", stateRetyped},
			{"consent: granted, Revoke Client User, revoked", stateUserRevoked},
			{"consent: granted, Revoke All Client Users, revoked", stateAllRevoked},
			{"consent: granted, user revoke, revoked", stateOwnRevoked},
			{"signing key: active, Rotate Signing Keys, new key signs", stateKeysRotated},
		} {
			t.Run(row.name, func(t *testing.T) {
				here := *s
				here.t = t
				row.test(t, &here)
			})
		}
	})
}

// All tokens and user consent grants of a client that is deleted are revoked.
func stateDeleted(t *testing.T, s *steward) {
	h := s.hold(s.application(stateScopes))
	_, body := s.post(h.a, "/oauth/token", url.Values{"grant_type": {"client_credentials"}})
	h.wantAlive(s)
	if !strings.Contains(s.consents(), h.a.id) {
		t.Fatal("there is no consent at first")
	}
	if got := s.call("DELETE", "/oidc/clients/"+h.a.id, nil).want(200); got.get("deleted") != true {
		t.Errorf("got %s", got.body)
	}
	h.wantDead(s)
	s.as(body["access_token"].(string)).call("GET", "/webhook/list", nil).want(401)
	if strings.Contains(s.consents(), h.a.id) {
		t.Error("the consent is listed still")
	}
	s.call("GET", "/oidc/clients/"+h.a.id, nil).want(404)
	s.call("DELETE", "/oidc/clients/"+h.a.id, nil).want(404)
}

// The old secret is invalidated immediately; only confidential clients have one.
func stateRotated(t *testing.T, s *steward) {
	a := s.application(stateScopes)
	ask := func(a application) int {
		status, _ := s.post(a, "/oauth/token", url.Values{"grant_type": {"client_credentials"}})
		return status
	}
	if got := ask(a); got != http.StatusOK {
		t.Fatalf("the first secret gives %d", got)
	}
	rotated := s.call("POST", "/oidc/clients/"+a.id+"/rotate-secret", nil).want(200)
	if old := ask(a); old != http.StatusUnauthorized || rotated.text("client_id") != a.id {
		t.Errorf("the old secret gives %d: %s", old, rotated.body)
	}
	if fresh := ask(application{a.id, rotated.text("client_secret")}); fresh != http.StatusOK {
		t.Errorf("the new secret gives %d", fresh)
	}
	public := s.application(map[string]any{"client_type": "public"})
	s.call("POST", "/oidc/clients/"+public.id+"/rotate-secret", nil).want(422)
}

// A change of the client's type gives a new secret, or takes it away; no other update has one in its answer.
func stateRetyped(t *testing.T, s *steward) {
	a := s.application(map[string]any{})
	update := func(body map[string]any) *answer { return s.call("PUT", "/oidc/clients/"+a.id, body).want(200) }
	introspect := func(secret string) int {
		status, _ := s.post(application{a.id, secret}, "/introspect", url.Values{"token": {"x"}})
		return status
	}
	if got := update(map[string]any{"name": "Other", "client_type": "confidential"}); got.get("client_secret") != nil {
		t.Errorf("an update without a change of type gives %s", got.body)
	}
	if got := update(map[string]any{"client_type": "public"}); got.get("client_secret") != nil || got.text("client.client_type") != "public" {
		t.Errorf("got %s", got.body)
	}
	if got := introspect(a.secret); got != http.StatusUnauthorized {
		t.Errorf("the secret of a client that became public gives %d", got)
	}
	fresh := update(map[string]any{"client_type": "confidential"}).text("client_secret")
	if old, now := introspect(a.secret), introspect(fresh); old != http.StatusUnauthorized || now != http.StatusOK {
		t.Errorf("the old secret gives %d, the new one %d", old, now)
	}
}

// revoked tests one of the ways to take back a consent: its tokens are invalidated, those of another user or client are not.
func (s *steward) revoked(path string, kept func(me, other, elsewhere held)) {
	s.t.Helper()
	a := s.application(stateScopes)
	guest, _ := s.invited(a.id+"@example.com", "member")
	p := s.party(a, "openid", "offline_access", "webhook:read")
	token, _ := p.signIn(guest)
	other := held{a: a, p: p, access: token.AccessToken, refresh: token.RefreshToken}
	me, elsewhere := s.hold(a), s.hold(s.application(stateScopes))
	me.wantAlive(s)
	path = strings.NewReplacer("{id}", a.id, "{me}", s.call("GET", "/cli/auth/user", nil).text("id")).Replace(path)
	if got := s.call("DELETE", path, nil).want(200); got.get("deleted") != true {
		s.t.Errorf("got %s", got.body)
	}
	me.wantDead(s)
	elsewhere.wantAlive(s)
	if strings.Contains(s.consents(), a.id) {
		s.t.Error("the consent is listed still")
	}
	kept(me, other, elsewhere)
	if strings.HasSuffix(path, "/users") {
		s.call("DELETE", path, nil).want(200)
	} else {
		s.call("DELETE", path, nil).want(404)
	}
	again := s.hold(a) // asks the user again, and gives tokens that live
	again.wantAlive(s)
	me.wantDead(s)
}

func stateUserRevoked(t *testing.T, s *steward) {
	s.revoked("/oidc/clients/{id}/users/{me}", func(_, other, _ held) { other.wantAlive(s) })
}

func stateAllRevoked(t *testing.T, s *steward) {
	s.revoked("/oidc/clients/{id}/users", func(_, other, _ held) { other.wantDead(s) })
}

func stateOwnRevoked(t *testing.T, s *steward) {
	s.revoked("/oidc/user/consent/{id}", func(_, other, _ held) { other.wantAlive(s) })
}

// The new key signs new tokens, those already issued stay valid, and whoever is not permitted rotates nothing.
func stateKeysRotated(t *testing.T, s *steward) {
	a := s.application(stateScopes)
	before, published := s.hold(a), s.keySet()
	viewer, _ := s.invited("viewer@example.com", "viewer")
	wide := s.party(s.application(map[string]any{"scopes": []string{"openid", "oauth:write"}}), "openid", "oauth:write")
	token, _ := wide.signIn(viewer)
	s.as(token.AccessToken).call("POST", "/oidc/keys/rotate", nil).want(403)
	if s.kidOf(s.hold(a).access) != s.kidOf(before.access) {
		t.Error("a viewer rotated the keys")
	}
	if got := s.call("POST", "/oidc/keys/rotate", nil).want(200); got.get("rotated") != true {
		t.Fatalf("got %s", got.body)
	}
	after := s.hold(a)
	for _, pair := range [][2]string{{before.access, after.access}, {before.idToken, after.idToken}} {
		if was, is := s.kidOf(pair[0]), s.kidOf(pair[1]); was == is || !strings.Contains(published, is) {
			t.Errorf("%s signed before, %s now; published was %s", was, is, published)
		}
	}
	before.wantAlive(s)
	after.wantAlive(s)
	p := s.party(a, "openid") // a relying party that comes anew
	for _, idToken := range []string{before.idToken, after.idToken} {
		_, err := p.provider.Verifier(&rp.Config{ClientID: a.id}).Verify(t.Context(), idToken)
		s.must(err)
	}
	p.refresh(&oauth2.Token{AccessToken: before.access, RefreshToken: before.refresh})
}

// An access token carries no more than its user's role of today, however wide its scopes are.
func TestBearerIsLimitedByRole(t *testing.T) {
	eachSignIn(t, func(t *testing.T, s *steward) {
		a := s.application(map[string]any{
			"scopes": []string{"openid", "oauth:read", "webhook:read", "webhook:write"}, "grant_types": everyGrant,
		})
		v, userID := s.invited("grace@example.com", "viewer")
		token, _ := s.party(a, "openid", "oauth:read", "webhook:read", "webhook:write").signIn(v)
		as := s.as(token.AccessToken)
		hook := map[string]any{"name": "x"}
		as.call("GET", "/webhook/list", nil).want(200)
		as.call("GET", "/oidc/clients", nil).want(200)
		as.call("POST", "/webhook/create", hook).want(403)
		as.call("GET", "/oidc/org/members", nil).want(403)
		as.call("GET", "/thread", nil).want(403) // no scope for it
		s.call("PUT", "/oidc/org/members/"+userID, map[string]any{"role": "admin"}).want(200)
		as.call("POST", "/webhook/create", hook).want(201)
		as.call("DELETE", "/oidc/clients/"+a.id, nil).want(403) // an admin may, a token without oauth:write may not
		s.call("PUT", "/oidc/org/members/"+userID, map[string]any{"role": "viewer"}).want(200)
		as.call("POST", "/webhook/create", hook).want(403)
		s.call("DELETE", "/oidc/org/members/"+userID, nil).want(204)
		as.call("GET", "/webhook/list", nil).want(401)
		_, machine := s.post(a, "/oauth/token", url.Values{"grant_type": {"client_credentials"}})
		s.as(machine["access_token"].(string)).call("GET", "/webhook/list", nil).want(403)
	})
}

// Who may do what with clients, members and keys, on each of the routes: everybody else is refused before anything is looked up.
func TestWhoMayManageClients(t *testing.T) {
	eachSignIn(t, func(t *testing.T, s *steward) {
		id := s.application(map[string]any{}).id
		scopes := []string{"openid", "oauth:read", "oauth:write"}
		tool := s.party(s.application(map[string]any{"scopes": scopes}), scopes...)
		callers := []*steward{s}
		for _, role := range []string{"admin", "member", "viewer"} {
			v, _ := s.invited(role+"@example.com", role)
			token, _ := tool.signIn(v)
			callers = append(callers, s.as(token.AccessToken))
		}
		confined := s.call("POST", "/cli/apikey", map[string]any{"name": "k", "projectId": "p1"}).want(201).text("value")
		callers = append(callers, s.as(confined), s.as(""))
		for _, c := range []struct {
			route string
			want  [6]int // owner, admin, member, viewer, project key, nobody
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
				if got := caller.call(method, path, map[string]any{}).status; got != c.want[i] {
					t.Errorf("%s: caller %d gets %d, want %d", c.route, i, got, c.want[i])
				}
			}
		}
	})
}
