package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

// memberTokens is all with which a member can use the organization.
type memberTokens struct {
	userID          string
	b               *installation.Browser
	a               installation.Application // for members only
	access, refresh string
	public          string // an access token of a client for everybody
	device          string // the device code that the member has approved
	key             string
}

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// newMemberTokens invites a member who signs in everywhere, approves a device and creates a key.
func newMemberTokens(s *installation.Steward, email string) memberTokens {
	s.T.Helper()
	scopes := []string{"openid", "offline_access", "webhook:read", "apikey:read", "apikey:write"}
	closed := object{"scopes": scopes, "grant_types": installation.EveryGrant, "is_public": false}
	open := object{"scopes": scopes, "grant_types": installation.EveryGrant}
	m := memberTokens{a: s.NewApplication(closed)}
	m.b, m.userID = s.Invite(email, "member")
	token, _ := s.NewRelyingParty(m.a, scopes...).SignIn(m.b)
	m.access = token.AccessToken
	m.refresh = token.RefreshToken
	token, _ = s.NewRelyingParty(s.NewApplication(open), scopes...).SignIn(m.b)
	m.public = token.AccessToken
	_, device := s.PostForm(m.a, "/device_authorization", url.Values{"scope": {"openid"}})
	m.b.Visit(device["verification_uri_complete"].(string))
	m.device = device["device_code"].(string)
	m.key = s.As(m.access).Call("POST", "/cli/apikey", object{"name": "mine"}).Want(201).Text("value")
	return m
}

// uses returns the ways in which the member can use a replica, but for the device code, which works
// once.
func (m memberTokens) uses(s *installation.Steward) map[string]func() bool {
	works := func(key, path string) func() bool {
		return func() bool { return s.As(key).Call("GET", path, nil).Status == http.StatusOK }
	}
	return map[string]func() bool{
		"userinfo":       works(m.access, "/userinfo"),
		"public client":  works(m.public, "/userinfo"),
		"management API": works(m.access, "/webhook/list"),
		"API key":        works(m.key, "/webhook/list"),
		"introspection":  func() bool { return s.Active(m.a, m.access) },
		"refresh": func() bool {
			status, _ := s.PostForm(m.a, "/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {m.refresh}})
			return status == http.StatusOK
		},
	}
}

// wantEnded checks that nothing of the member works.
func (m memberTokens) wantEnded(s *installation.Steward) {
	s.T.Helper()
	for name, works := range m.uses(s) {
		if works() {
			s.T.Errorf("%s works", name)
		}
	}
	status, body := s.PostForm(m.a, "/oauth/token", url.Values{"grant_type": {deviceGrant}, "device_code": {m.device}})
	if status != http.StatusBadRequest || body["error"] != "invalid_grant" {
		s.T.Errorf("device code: %d %v", status, body)
	}
}

// signInToAccount signs in on the account page and reports whether that worked.
func signInToAccount(b *installation.Browser) bool {
	b.Steward.T.Helper()
	p := b.Do("GET", b.Steward.URL+"/account", nil)
	return b.Submit(p, map[string]string{"email": b.Email, "password": b.Password}).Status == http.StatusSeeOther
}

func TestDisabledOrRemovedMemberLosesAllAccess(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		for _, how := range []struct {
			name string
			end  func(userID string)
		}{
			{"disabled", func(userID string) {
				got := s.Call("PUT", "/oidc/org/members/"+userID, object{"disabled": true}).Want(200)
				if got.Get("disabled") != true || got.Text("role") != "member" {
					t.Errorf("got %s", got.Body)
				}
			}},
			{"removed", func(userID string) { s.Call("DELETE", "/oidc/org/members/"+userID, nil).Want(204) }},
		} {
			t.Run(how.name, func(t *testing.T) {
				m := newMemberTokens(s, how.name+"@example.com")
				for name, works := range m.uses(s) {
					if !works() {
						t.Fatalf("%s does not work before", name)
					}
				}
				if !m.b.HasSession() {
					t.Fatal("the member is not signed in before")
				}
				how.end(m.userID)
				m.wantEnded(s)
				if m.b.HasSession() || signInToAccount(m.b) {
					t.Error("the member is signed in")
				}
			})
		}
	})
}

func TestEnabledMemberStartsAnew(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		m := newMemberTokens(s, "grace@example.com")
		s.Call("PUT", "/oidc/org/members/"+m.userID, object{"disabled": true}).Want(200)
		got := s.Call("PUT", "/oidc/org/members/"+m.userID, object{"disabled": false}).Want(200)
		if got.Get("disabled") != false {
			t.Errorf("got %s", got.Body)
		}
		m.wantEnded(s)
		if m.b.HasSession() {
			t.Error("the old session works again")
		}
		if !signInToAccount(m.b) {
			t.Error("the member cannot sign in")
		}
		token, _ := s.NewRelyingParty(m.a, "openid", "webhook:read").SignIn(m.b)
		s.As(token.AccessToken).Call("GET", "/webhook/list", nil).Want(200)
	})
}

func TestMemberDisabledOnOneReplicaIsRefusedByTheOther(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "postgres")
	other := s.BalancedReplica()
	m := newMemberTokens(s, "grace@example.com")
	uses := m.uses(other)
	for name, works := range uses {
		if !works() {
			t.Fatalf("%s does not work before", name)
		}
	}
	s.Call("PUT", "/oidc/org/members/"+m.userID, object{"disabled": true}).Want(200)
	waittest.Within(t, time.Second, "the other replica to refuse the member", func() bool {
		for _, works := range uses {
			if works() {
				return false
			}
		}
		return true
	})
	m.wantEnded(other)
	there := *m.b
	there.Steward = other
	if (&there).HasSession() || signInToAccount(&there) {
		t.Error("the member is signed in at the other replica")
	}
}

func TestUserOfAnotherOrganizationStaysSignedIn(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		other := s.SecondOrganization()
		b, userID := s.Invite("grace@example.com", "member")
		joinOrganization(b, other.InviteMember("grace@example.com", "viewer").Link)
		s.Call("PUT", "/oidc/org/members/"+userID, object{"disabled": true}).Want(200)
		if !b.HasSession() {
			t.Fatal("the session has ended with the first of two memberships")
		}
		s.Call("POST", "/oidc/org/members/"+userID+"/reset-password", nil).Want(409)
		other.Call("POST", "/oidc/org/members/"+userID+"/reset-password", nil).Want(403)
		other.Call("PUT", "/oidc/org/members/"+userID, object{"disabled": true}).Want(200)
		if b.HasSession() || signInToAccount(b) {
			t.Error("a user without an enabled membership is signed in")
		}
	})
}

func TestLastEnabledOwnerCannotBeDisabled(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		me := s.Call("GET", "/cli/auth/user", nil).Text("id")
		s.Call("PUT", "/oidc/org/members/"+me, object{"disabled": true}).Want(409)
		_, second := s.Invite("grace@example.com", "owner")
		s.Call("PUT", "/oidc/org/members/"+second, object{"disabled": true}).Want(200)
		for method, body := range map[string]any{"DELETE": nil, "PUT": object{"role": "admin"}} {
			s.Call(method, "/oidc/org/members/"+me, body).Want(409)
		}
		s.Call("PUT", "/oidc/org/members/"+second, object{"disabled": false}).Want(200)
		s.Call("PUT", "/oidc/org/members/"+me, object{"disabled": true}).Want(200)
		s.Call("GET", "/cli/auth/user", nil).Want(401) // also the root key, which is that owner's
	})
}

// asMember returns the installation, used with an access token of a member that has all rights of the
// role over members.
func asMember(s *installation.Steward, b *installation.Browser) *installation.Steward {
	s.T.Helper()
	scopes := []string{"openid", "member:read", "member:write"}
	token, _ := s.NewRelyingParty(s.NewApplication(object{"scopes": scopes}), scopes...).SignIn(b)
	return s.As(token.AccessToken)
}

func TestPasswordIsReset(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		me := s.Call("GET", "/cli/auth/user", nil).Text("id")
		b, userID := s.Invite("grace@example.com", "member")
		adminBrowser, _ := s.Invite("admin@example.com", "admin")
		admin := asMember(s, adminBrowser)
		path := "/oidc/org/members/" + userID + "/reset-password"
		got := admin.Call("POST", path, nil).Want(200)
		expires, err := time.Parse(time.RFC3339, got.Text("expires_at"))
		if left := time.Until(expires); err != nil || left > time.Hour || left < 50*time.Minute {
			t.Errorf("expires_at: %s, %v", got.Text("expires_at"), err)
		}
		if link := got.Text("link"); !strings.HasPrefix(link, s.URL+"/reset/") || len(link) < len(s.URL)+40 {
			t.Errorf("link: %s", link)
		}
		s.As("").Call("POST", path, nil).Want(401)
		asMember(s, b).Call("POST", path, nil).Want(403)
		usesReset(s, b, got.Text("link"))
		admin.Call("POST", "/oidc/org/members/"+me+"/reset-password", nil).Want(403)
		admin.Call("POST", "/oidc/org/members/"+me+"/invite", nil).Want(403)
		admin.Call("PUT", "/oidc/org/members/"+me, object{"disabled": true}).Want(403)
		admin.Call("POST", "/oidc/org/members/usr_none/reset-password", nil).Want(404)
		var lines []struct{ Action, Target string }
		s.Call("GET", "/audit", nil).Want(200).Decode(&lines)
		for _, line := range lines {
			if line.Action == "member.reset_password" && line.Target == userID {
				return
			}
		}
		t.Errorf("audit log: %+v", lines)
	})
}

// usesReset sets a new password with a link: the sessions of the user end, and the link works once.
func usesReset(s *installation.Steward, b *installation.Browser, link string) {
	s.T.Helper()
	elsewhere := s.NewBrowser()
	elsewhere.Email = b.Email
	const password = "a second password"
	form := elsewhere.Do("GET", link, nil)
	if p := elsewhere.Submit(form, map[string]string{"password": password}); p.Location != "/console/sign-in" {
		s.T.Fatalf("the reset leads to %q: %s", p.Location, p.Body)
	}
	if p := b.Do("GET", s.URL+"/account", nil); !strings.Contains(p.Body, `name="password"`) || strings.Contains(p.Body, "Sign out") {
		s.T.Errorf("another session lives on: %s", p.Body)
	}
	if p := elsewhere.Do("GET", link, nil); p.Status != 404 {
		s.T.Errorf("the link works again: %d", p.Status)
	}
	signIn := b.Do("GET", s.URL+"/account", nil)
	if p := b.Submit(signIn, map[string]string{"email": b.Email, "password": b.Password}); p.Status != 400 {
		s.T.Errorf("the old password: %d %q", p.Status, p.Location)
	}
	b.Password = password
	if p := b.Submit(signIn, map[string]string{"email": b.Email, "password": password}); p.Location != "/account" {
		s.T.Errorf("the new password: %d %s", p.Status, p.Body)
	}
}

func TestInvitationLinkIsReplaced(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		var first, second installation.Member
		s.Call("POST", "/oidc/org/members", object{"email": "grace@example.com", "role": "viewer"}).Want(201).Decode(&first)
		s.Call("POST", "/oidc/org/members/"+first.ID+"/invite", nil).Want(200).Decode(&second)
		if second.ID != first.ID || second.Role != "viewer" || second.Link == first.Link {
			t.Fatalf("got %+v after %+v", second, first)
		}
		b := s.NewBrowser()
		if got := b.Do("GET", first.Link, nil); got.Status != http.StatusNotFound {
			t.Errorf("the first link: %d", got.Status)
		}
		p := b.Submit(b.Do("GET", second.Link, nil), map[string]string{"password": "a first password"})
		if p.Location != "/console/sign-in" {
			t.Errorf("the second link leads to %q: %s", p.Location, p.Body)
		}
		s.Call("POST", "/oidc/org/members/"+first.ID+"/invite", nil).Want(404)
		s.Call("POST", "/oidc/org/members/"+s.MemberOf("grace@example.com").ID+"/invite", nil).Want(409)
	})
}

func TestNamesWithHiddenCharactersAreRefused(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	me := s.Call("GET", "/cli/auth/user", nil).Text("id")
	const hidden = "Ada\u202eecalevoL"
	s.Call("POST", "/oidc/org/members", object{"email": "g@example.com", "role": "viewer", "last_name": hidden}).Want(422)
	got := s.Call("PUT", "/oidc/org/members/"+me, object{"first_name": hidden}).Want(422)
	if !strings.Contains(string(got.Body), "body.first_name") {
		t.Errorf("got %s", got.Body)
	}
	s.Call("POST", "/cli/project", object{"name": hidden}).Want(422)
}

func TestWhoAmIHasNoNullForSDKs(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	root := s.Call("GET", "/cli/auth/user", nil).Want(200)
	sdk := s.Call("GET", "/sdk/cli/auth/user", nil).Want(200)
	for _, name := range []string{"email", "firstName", "lastName"} {
		if root.Get(name) != nil || sdk.Get("data."+name) != "" {
			t.Errorf("%s is %v at the root and %v for SDKs", name, root.Get(name), sdk.Get("data."+name))
		}
	}
}
