package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// memberTokens is all with which a member can use the organization.
type memberTokens struct {
	userID          string
	b               *browser
	a               application // for members only
	access, refresh string
	public          string // an access token of a client for everybody
	device          string // the device code that the member has approved
	key             string
}

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// memberTokens invites a member who signs in everywhere, approves a device and creates a key.
func (s *steward) memberTokens(email string) memberTokens {
	s.t.Helper()
	scopes := []string{"openid", "offline_access", "webhook:read", "apikey:read", "apikey:write"}
	closed := object{"scopes": scopes, "grant_types": everyGrant, "is_public": false}
	open := object{"scopes": scopes, "grant_types": everyGrant}
	m := memberTokens{a: s.application(closed)}
	m.b, m.userID = s.invite(email, "member")
	token, _ := s.relyingParty(m.a, scopes...).signIn(m.b)
	m.access = token.AccessToken
	m.refresh = token.RefreshToken
	token, _ = s.relyingParty(s.application(open), scopes...).signIn(m.b)
	m.public = token.AccessToken
	_, device := s.post(m.a, "/device_authorization", url.Values{"scope": {"openid"}})
	m.b.visit(device["verification_uri_complete"].(string))
	m.device = device["device_code"].(string)
	m.key = s.as(m.access).call("POST", "/cli/apikey", object{"name": "mine"}).want(201).text("value")
	return m
}

// uses returns the ways in which the member can use a replica, but for the device code, which works
// once.
func (m memberTokens) uses(s *steward) map[string]func() bool {
	works := func(key, path string) func() bool {
		return func() bool { return s.as(key).call("GET", path, nil).status == http.StatusOK }
	}
	return map[string]func() bool{
		"userinfo":       works(m.access, "/userinfo"),
		"public client":  works(m.public, "/userinfo"),
		"management API": works(m.access, "/webhook/list"),
		"API key":        works(m.key, "/webhook/list"),
		"introspection":  func() bool { return s.active(m.a, m.access) },
		"refresh": func() bool {
			status, _ := s.post(m.a, "/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {m.refresh}})
			return status == http.StatusOK
		},
	}
}

// wantEnded checks that nothing of the member works.
func (m memberTokens) wantEnded(s *steward) {
	s.t.Helper()
	for name, works := range m.uses(s) {
		if works() {
			s.t.Errorf("%s works", name)
		}
	}
	status, body := s.post(m.a, "/oauth/token", url.Values{"grant_type": {deviceGrant}, "device_code": {m.device}})
	if status != http.StatusBadRequest || body["error"] != "invalid_grant" {
		s.t.Errorf("device code: %d %v", status, body)
	}
}

// signedIn reports whether the session of the browser has not ended.
func (b *browser) signedIn() bool {
	b.s.t.Helper()
	return !strings.Contains(b.do("GET", b.s.URL+"/account", nil).body, `action="/sign-in"`)
}

// signIn signs in on the account page and reports whether that worked.
func (b *browser) signIn() bool {
	b.s.t.Helper()
	p := b.do("GET", b.s.URL+"/account", nil)
	return b.submit(p, map[string]string{"email": b.email, "password": b.password}).status == http.StatusSeeOther
}

func TestDisabledOrRemovedMemberLosesAllAccess(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		for _, how := range []struct {
			name string
			end  func(userID string)
		}{
			{"disabled", func(userID string) {
				got := s.call("PUT", "/oidc/org/members/"+userID, object{"disabled": true}).want(200)
				if got.get("disabled") != true || got.text("role") != "member" {
					t.Errorf("got %s", got.body)
				}
			}},
			{"removed", func(userID string) { s.call("DELETE", "/oidc/org/members/"+userID, nil).want(204) }},
		} {
			t.Run(how.name, func(t *testing.T) {
				m := s.memberTokens(how.name + "@example.com")
				for name, works := range m.uses(s) {
					if !works() {
						t.Fatalf("%s does not work before", name)
					}
				}
				if !m.b.signedIn() {
					t.Fatal("the member is not signed in before")
				}
				how.end(m.userID)
				m.wantEnded(s)
				if m.b.signedIn() || m.b.signIn() {
					t.Error("the member is signed in")
				}
			})
		}
	})
}

func TestEnabledMemberStartsAnew(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		m := s.memberTokens("grace@example.com")
		s.call("PUT", "/oidc/org/members/"+m.userID, object{"disabled": true}).want(200)
		got := s.call("PUT", "/oidc/org/members/"+m.userID, object{"disabled": false}).want(200)
		if got.get("disabled") != false {
			t.Errorf("got %s", got.body)
		}
		m.wantEnded(s)
		if m.b.signedIn() {
			t.Error("the old session works again")
		}
		if !m.b.signIn() {
			t.Error("the member cannot sign in")
		}
		token, _ := s.relyingParty(m.a, "openid", "webhook:read").signIn(m.b)
		s.as(token.AccessToken).call("GET", "/webhook/list", nil).want(200)
	})
}

func TestMemberDisabledOnOneReplicaIsRefusedByTheOther(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, "postgres")
	other := s.balancedReplica()
	m := s.memberTokens("grace@example.com")
	uses := m.uses(other)
	for name, works := range uses {
		if !works() {
			t.Fatalf("%s does not work before", name)
		}
	}
	s.call("PUT", "/oidc/org/members/"+m.userID, object{"disabled": true}).want(200)
	within(t, time.Second, "the other replica to refuse the member", func() bool {
		for _, works := range uses {
			if works() {
				return false
			}
		}
		return true
	})
	m.wantEnded(other)
	there := *m.b
	there.s = other
	if there.signedIn() || there.signIn() {
		t.Error("the member is signed in at the other replica")
	}
}

func TestUserOfAnotherOrganizationStaysSignedIn(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		other := s.secondOrganization()
		b, userID := s.invite("grace@example.com", "member")
		b.join(other.invitation("grace@example.com", "viewer").Link)
		s.call("PUT", "/oidc/org/members/"+userID, object{"disabled": true}).want(200)
		if !b.signedIn() {
			t.Fatal("the session has ended with the first of two memberships")
		}
		s.call("POST", "/oidc/org/members/"+userID+"/reset-password", nil).want(409)
		other.call("POST", "/oidc/org/members/"+userID+"/reset-password", nil).want(403)
		other.call("PUT", "/oidc/org/members/"+userID, object{"disabled": true}).want(200)
		if b.signedIn() || b.signIn() {
			t.Error("a user without an enabled membership is signed in")
		}
	})
}

func TestLastEnabledOwnerCannotBeDisabled(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		me := s.call("GET", "/cli/auth/user", nil).text("id")
		s.call("PUT", "/oidc/org/members/"+me, object{"disabled": true}).want(409)
		_, second := s.invite("grace@example.com", "owner")
		s.call("PUT", "/oidc/org/members/"+second, object{"disabled": true}).want(200)
		for method, body := range map[string]any{"DELETE": nil, "PUT": object{"role": "admin"}} {
			s.call(method, "/oidc/org/members/"+me, body).want(409)
		}
		s.call("PUT", "/oidc/org/members/"+second, object{"disabled": false}).want(200)
		s.call("PUT", "/oidc/org/members/"+me, object{"disabled": true}).want(200)
		s.call("GET", "/cli/auth/user", nil).want(401) // also the root key, which is that owner's
	})
}

// asMember returns the installation, used with an access token of a member that has all rights of the
// role over members.
func (s *steward) asMember(b *browser) *steward {
	s.t.Helper()
	scopes := []string{"openid", "member:read", "member:write"}
	token, _ := s.relyingParty(s.application(object{"scopes": scopes}), scopes...).signIn(b)
	return s.as(token.AccessToken)
}

func TestPasswordIsReset(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		me := s.call("GET", "/cli/auth/user", nil).text("id")
		b, userID := s.invite("grace@example.com", "member")
		adminBrowser, _ := s.invite("admin@example.com", "admin")
		admin := s.asMember(adminBrowser)
		path := "/oidc/org/members/" + userID + "/reset-password"
		got := admin.call("POST", path, nil).want(200)
		expires, err := time.Parse(time.RFC3339, got.text("expires_at"))
		if left := time.Until(expires); err != nil || left > time.Hour || left < 50*time.Minute {
			t.Errorf("expires_at: %s, %v", got.text("expires_at"), err)
		}
		if link := got.text("link"); !strings.HasPrefix(link, s.URL+"/reset/") || len(link) < len(s.URL)+40 {
			t.Errorf("link: %s", link)
		}
		s.as("").call("POST", path, nil).want(401)
		s.asMember(b).call("POST", path, nil).want(403)
		s.usesReset(b, got.text("link"))
		admin.call("POST", "/oidc/org/members/"+me+"/reset-password", nil).want(403)
		admin.call("POST", "/oidc/org/members/"+me+"/invite", nil).want(403)
		admin.call("PUT", "/oidc/org/members/"+me, object{"disabled": true}).want(403)
		admin.call("POST", "/oidc/org/members/usr_none/reset-password", nil).want(404)
		var lines []struct{ Action, Target string }
		s.call("GET", "/audit", nil).want(200).decode(&lines)
		for _, line := range lines {
			if line.Action == "member.reset_password" && line.Target == userID {
				return
			}
		}
		t.Errorf("audit log: %+v", lines)
	})
}

// usesReset sets a new password with a link: the sessions of the user end, and the link works once.
func (s *steward) usesReset(b *browser, link string) {
	s.t.Helper()
	elsewhere := s.browser()
	elsewhere.email = b.email
	const password = "a second password"
	form := elsewhere.do("GET", link, nil)
	if p := elsewhere.submit(form, map[string]string{"password": password}); p.location != "/account" {
		s.t.Fatalf("the reset leads to %q: %s", p.location, p.body)
	}
	if p := b.do("GET", s.URL+"/account", nil); !strings.Contains(p.body, `name="password"`) || strings.Contains(p.body, "Sign out") {
		s.t.Errorf("another session lives on: %s", p.body)
	}
	if p := elsewhere.do("GET", link, nil); p.status != 404 {
		s.t.Errorf("the link works again: %d", p.status)
	}
	signIn := b.do("GET", s.URL+"/account", nil)
	if p := b.submit(signIn, map[string]string{"email": b.email, "password": b.password}); p.status != 400 {
		s.t.Errorf("the old password: %d %q", p.status, p.location)
	}
	b.password = password
	if p := b.submit(signIn, map[string]string{"email": b.email, "password": password}); p.location != "/account" {
		s.t.Errorf("the new password: %d %s", p.status, p.body)
	}
}

func TestInvitationLinkIsReplaced(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		var first, second member
		s.call("POST", "/oidc/org/members", object{"email": "grace@example.com", "role": "viewer"}).want(201).decode(&first)
		s.call("POST", "/oidc/org/members/"+first.ID+"/invite", nil).want(200).decode(&second)
		if second.ID != first.ID || second.Role != "viewer" || second.Link == first.Link {
			t.Fatalf("got %+v after %+v", second, first)
		}
		b := s.browser()
		if got := b.do("GET", first.Link, nil); got.status != http.StatusNotFound {
			t.Errorf("the first link: %d", got.status)
		}
		p := b.submit(b.do("GET", second.Link, nil), map[string]string{"password": "a first password"})
		if p.location != "/account" {
			t.Errorf("the second link leads to %q: %s", p.location, p.body)
		}
		s.call("POST", "/oidc/org/members/"+first.ID+"/invite", nil).want(404)
		s.call("POST", "/oidc/org/members/"+s.memberOf("grace@example.com").ID+"/invite", nil).want(409)
	})
}

func TestNamesWithHiddenCharactersAreRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		me := s.call("GET", "/cli/auth/user", nil).text("id")
		const hidden = "Ada\u202eecalevoL"
		s.call("POST", "/oidc/org/members", object{"email": "g@example.com", "role": "viewer", "last_name": hidden}).want(422)
		got := s.call("PUT", "/oidc/org/members/"+me, object{"first_name": hidden}).want(422)
		if !strings.Contains(string(got.body), "body.first_name") {
			t.Errorf("got %s", got.body)
		}
		s.call("POST", "/cli/project", object{"name": hidden}).want(422)
	})
}

func TestWhoAmIHasNoNullForSDKs(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		root := s.call("GET", "/cli/auth/user", nil).want(200)
		sdk := s.call("GET", "/sdk/cli/auth/user", nil).want(200)
		for _, name := range []string{"email", "firstName", "lastName"} {
			if root.get(name) != nil || sdk.get("data."+name) != "" {
				t.Errorf("%s is %v at the root and %v for SDKs", name, root.get(name), sdk.get("data."+name))
			}
		}
	})
}
