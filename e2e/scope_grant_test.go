package e2e

import (
	"net/url"
	"strings"
	"testing"

	"golang.org/x/oauth2"
)

// TestScopedCallerNeverGrantsMoreThanItHas uses keys and a token that are restricted to oauth:* to invite an
// owner, and to get hold of a client with more scopes. An organization beside it has the same.
func TestScopedCallerNeverGrantsMoreThanItHas(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		scopes := []string{"oauth:read", "oauth:write"}
		granted := append([]string{"openid"}, scopes...)
		token, _ := s.relyingParty(s.application(object{"scopes": granted}), granted...).signIn(s.browser())
		other := s.secondOrganization()
		for name, as := range map[string]*steward{
			"key": s.scopedKey(scopes...), "token": s.as(token.AccessToken),
			"key of another organization": other.scopedKey(scopes...),
		} {
			owner := s
			if strings.Contains(name, "another") {
				owner = other
			}
			t.Run(name, func(t *testing.T) { as.sub(t).grantsOnlyItsScopes(owner.sub(t)) })
		}
		// A foreign client is not found, whatever its scopes are.
		foreign := s.application(object{"scopes": []string{"openid", "storage:write"}})
		as := other.scopedKey(scopes...)
		as.call("POST", "/oidc/clients/"+foreign.id+"/rotate-secret", nil).want(404)
		as.call("PUT", "/oidc/clients/"+foreign.id, object{"redirect_uris": []string{"https://evil.example.com"}}).want(404)
	})
}

// sub returns the installation for a subtest.
func (s *steward) sub(t *testing.T) *steward {
	sub := *s
	sub.t = t
	return &sub
}

// scopedKey returns the installation with a key that is restricted to scopes.
func (s *steward) scopedKey(scopes ...string) *steward {
	s.t.Helper()
	return s.as(s.call("POST", "/cli/apikey", object{"name": "scoped", "scopes": scopes}).want(201).text("value"))
}

// grantsOnlyItsScopes requires that a caller with oauth:read and oauth:write makes no more than it has.
func (s *steward) grantsOnlyItsScopes(owner *steward) {
	s.t.Helper()
	refused := func(scope, method, path string, body any) {
		s.t.Helper()
		if got := s.call(method, path, body).want(403); !strings.Contains(got.text("detail"), "the scope "+scope+" is required") {
			s.t.Errorf("%s %s %v: got %s", method, path, body, got.body)
		}
	}
	refused("member:read", "GET", "/oidc/org/members", nil)
	refused("member:read", "GET", "/audit", nil)
	refused("member:write", "POST", "/oidc/org/members", object{"email": "evil@example.com", "role": "owner"})

	client := func(scopes ...string) object {
		c := object{"name": "c", "description": "", "homepage_url": "https://a.example.com"}
		if scopes != nil {
			c["scopes"] = scopes
		}
		return c
	}
	refused("storage:write", "POST", "/oidc/clients", client("openid", "oauth:read", "storage:write"))
	refused("member:write", "POST", "/oidc/clients", client("member:write"))
	s.call("POST", "/oidc/clients", client()).want(200)
	own := s.call("POST", "/oidc/clients", client("openid", "profile", "email", "offline_access", "oauth:write")).want(200)
	path := "/oidc/clients/" + own.text("client.id")
	refused("storage:read", "PUT", path, object{"scopes": []string{"oauth:write", "storage:read"}})
	s.call("POST", path+"/rotate-secret", nil).want(200)
	s.call("PUT", path, object{"redirect_uris": []string{"https://a.example.com/cb"}, "grant_types": everyGrant}).want(200)
	s.call("PUT", path, object{"scopes": []string{"openid", "oauth:read"}}).want(200)

	more := "/oidc/clients/" + owner.application(object{"scopes": []string{"openid", "oauth:read", "storage:write"}}).id
	refused("storage:write", "POST", more+"/rotate-secret", nil)
	for field, value := range map[string]any{
		"redirect_uris": []string{redirectURI, "https://evil.example.com"}, "client_type": "public",
		"grant_types": everyGrant, "audience": "https://evil.example.com/" + more, "project_id": "prj_evil",
	} {
		refused("storage:write", "PUT", more, object{field: value})
	}
	refused("thread:read", "PUT", more, object{"scopes": []string{"openid", "storage:write", "thread:read"}})
	got := s.call("GET", more, nil).want(200)
	// What gives no access may be changed, also in one request with what stays as it is.
	s.call("PUT", more, object{
		"name": "Other", "scopes": []string{"storage:write", "openid"}, "redirect_uris": got.get("redirect_uris"),
		"client_type": "confidential", "grant_types": got.get("grant_types"), "audience": nil,
	}).want(200)
	s.call("DELETE", more+"/users", nil).want(200)
	s.call("DELETE", more, nil).want(200)
}

// TestMemberScopesManageMembersOnly uses a key with member:write, which may invite but grants no client more.
func TestMemberScopesManageMembersOnly(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		reader, writer := s.scopedKey("member:read"), s.scopedKey("member:write")
		for _, path := range []string{"/oidc/org/members", "/audit"} {
			reader.call("GET", path, nil).want(200)
			writer.call("GET", path, nil).want(403)
		}
		invitation := object{"email": "grace@example.com", "role": "admin"}
		reader.call("POST", "/oidc/org/members", invitation).want(403)
		writer.call("POST", "/oidc/org/members", invitation).want(201)
		writer.call("POST", "/oidc/clients", object{}).want(403)
		writer.call("GET", "/oidc/clients", nil).want(403)
		var catalogue struct {
			Permissions []struct {
				Groups []struct {
					ID     string
					Levels []struct {
						Warning      bool
						WarningTitle string
					}
				}
			}
		}
		s.call("GET", "/oidc/scopes", nil).want(200).decode(&catalogue)
		for _, section := range catalogue.Permissions {
			for _, group := range section.Groups {
				if group.ID != "member" {
					continue
				}
				if write := group.Levels[2]; !write.Warning || !strings.Contains(write.WarningTitle, "any role up to your own") {
					t.Errorf("got %+v", write)
				}
				return
			}
		}
		t.Error("the catalogue has no member area")
	})
}

// TestResourceReadShowsNoCredentials compares callers of both faces, as key, token and client.
func TestResourceReadShowsNoCredentials(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		s.call("POST", "/resource/"+s.orgID+"/local", object{"resources": []object{
			{"type": "s3", "name": "scoped-bucket"}, {"type": "db", "name": "scoped"}, {"type": "kv", "name": "scoped"},
		}}).want(201)
		var list struct{ S3, DB, KV []object }
		s.call("GET", "/resource/"+s.orgID+"/local", nil).want(200).decode(&list)
		secrets := []any{
			list.S3[0]["secret_key"], list.S3[0]["access_key"], list.DB[0]["password"], list.KV[0]["password"],
		}
		scopes := []string{"resource:read", "resource:write", "storage:read", "storage:write"}
		a, machine := s.machine(object{"scopes": scopes})
		narrow := url.Values{"grant_type": {"client_credentials"}, "scope": {"resource:read"}}
		token := s.token(a, narrow, nil, "").text("access_token")
		for name, c := range map[string]struct {
			as    *steward
			shown bool
		}{
			"owner":                     {s, true},
			"key with resource:write":   {s.scopedKey("resource:read", "resource:write"), true},
			"key with resource:read":    {s.scopedKey("resource:read", "storage:write"), false},
			"client with resource:read": {s.as(token), false},
			"client with all":           {machine, true},
		} {
			for _, path := range []string{
				"/resource", "/resource/" + s.orgID + "/local", "/sdk/resource", "/sdk/resource/" + s.orgID + "/local",
			} {
				body := string(c.as.call("GET", path, nil).want(200).body)
				for _, secret := range secrets {
					text, _ := secret.(string)
					if text == "" || strings.Contains(body, text) != c.shown {
						t.Errorf("%s of %s, secret %q: %s", path, name, text, body)
					}
				}
			}
		}
	})
}

// TestAdminGetsNoCodeAtANewRedirectURI lets an admin add a redirect URI to a client that the owner uses, and
// rotate its secret. The owner's browser, which the admin sends to the authorization endpoint, must ask.
func TestAdminGetsNoCodeAtANewRedirectURI(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		a, b := s.application(object{"scopes": []string{"openid", "storage:write"}}), s.browser()
		p := s.relyingParty(a, "openid", "storage:write")
		p.signIn(b)
		b.wantCode(p, redirectURI, true)
		adminBrowser, _ := s.invite("admin@example.com", "admin")
		scopes := []string{"openid", "oauth:read", "oauth:write", "storage:write"}
		token, _ := s.relyingParty(s.application(object{"scopes": scopes}), scopes...).signIn(adminBrowser)
		admin := s.as(token.AccessToken)
		const evil = "https://evil.example.com/cb"
		admin.call("PUT", "/oidc/clients/"+a.id, object{"redirect_uris": []string{redirectURI, evil}}).want(200)
		admin.call("POST", "/oidc/clients/"+a.id+"/rotate-secret", nil).want(200)
		b.wantCode(p, redirectURI, true)
		b.wantCode(p, evil, false)
	})
}

// wantCode requires that a browser is sent to a redirect URI with a code, or with prompt=none with the error
// consent_required.
func (b *browser) wantCode(p *relyingParty, uri string, want bool) {
	b.s.t.Helper()
	config := p.config
	config.RedirectURL = uri
	challenge := oauth2.S256ChallengeOption(oauth2.GenerateVerifier())
	shown := b.do("GET", config.AuthCodeURL("s", challenge), nil)
	silent := b.do("GET", config.AuthCodeURL("s", challenge, oauth2.SetAuthURLParam("prompt", "none")), nil)
	sent := strings.Contains(shown.location, "code=")
	if sent != want || !want && !strings.Contains(shown.body, "evil.example.com") {
		b.s.t.Errorf("%s: a code is sent without a page: %t: %s", uri, sent, shown.body)
	}
	if !strings.HasPrefix(silent.location, uri) || strings.Contains(silent.location, "error=consent_required") == want {
		b.s.t.Errorf("%s with prompt=none: sent to %s", uri, silent.location)
	}
}
