package e2e

import (
	"net/url"
	"strings"
	"testing"

	"golang.org/x/oauth2"

	"steward/e2e/installation"
)

// TestScopedCallerNeverGrantsMoreThanItHas uses keys and a token that are restricted to oauth:* to invite an
// owner, and to get hold of a client with more scopes. An organization beside it has the same.
func TestScopedCallerNeverGrantsMoreThanItHas(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	scopes := []string{"oauth:read", "oauth:write"}
	granted := append([]string{"openid"}, scopes...)
	token, _ := s.NewRelyingParty(s.NewApplication(object{"scopes": granted}), granted...).SignIn(s.NewBrowser())
	other := s.SecondOrganization()
	for name, as := range map[string]*installation.Steward{
		"key": scopedKey(s, scopes...), "token": s.As(token.AccessToken),
		"key of another organization": scopedKey(other, scopes...),
	} {
		owner := s
		if strings.Contains(name, "another") {
			owner = other
		}
		t.Run(name, func(t *testing.T) { grantsOnlyItsScopes(forSubtest(t, as), forSubtest(t, owner)) })
	}
	// A foreign client is not found, whatever its scopes are.
	foreign := s.NewApplication(object{"scopes": []string{"openid", "storage:write"}})
	as := scopedKey(other, scopes...)
	as.Call("POST", "/oidc/clients/"+foreign.ID+"/rotate-secret", nil).Want(404)
	as.Call("PUT", "/oidc/clients/"+foreign.ID, object{"redirect_uris": []string{"https://evil.example.com"}}).Want(404)
}

// forSubtest returns the installation for a subtest.
func forSubtest(t *testing.T, s *installation.Steward) *installation.Steward {
	sub := *s
	sub.T = t
	return &sub
}

// scopedKey returns the installation with a key that is restricted to scopes.
func scopedKey(s *installation.Steward, scopes ...string) *installation.Steward {
	s.T.Helper()
	return s.As(s.Call("POST", "/cli/apikey", object{"name": "scoped", "scopes": scopes}).Want(201).Text("value"))
}

// grantsOnlyItsScopes requires that a caller with oauth:read and oauth:write makes no more than it has.
func grantsOnlyItsScopes(s *installation.Steward, owner *installation.Steward) {
	s.T.Helper()
	refused := func(scope, method, path string, body any) {
		s.T.Helper()
		if got := s.Call(method, path, body).Want(403); !strings.Contains(got.Text("detail"), "the scope "+scope+" is required") {
			s.T.Errorf("%s %s %v: got %s", method, path, body, got.Body)
		}
	}
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
	s.Call("POST", "/oidc/clients", client()).Want(200)
	own := s.Call("POST", "/oidc/clients", client("openid", "profile", "email", "offline_access", "oauth:write")).Want(200)
	path := "/oidc/clients/" + own.Text("client.id")
	refused("storage:read", "PUT", path, object{"scopes": []string{"oauth:write", "storage:read"}})
	s.Call("POST", path+"/rotate-secret", nil).Want(200)
	s.Call("PUT", path, object{"redirect_uris": []string{"https://a.example.com/cb"}, "grant_types": installation.EveryGrant}).Want(200)
	s.Call("PUT", path, object{"scopes": []string{"openid", "oauth:read"}}).Want(200)

	more := "/oidc/clients/" + owner.NewApplication(object{"scopes": []string{"openid", "oauth:read", "storage:write"}}).ID
	refused("storage:write", "POST", more+"/rotate-secret", nil)
	for field, value := range map[string]any{
		"redirect_uris": []string{installation.RedirectURI, "https://evil.example.com"}, "client_type": "public",
		"grant_types": installation.EveryGrant, "audience": "https://evil.example.com/" + more, "project_id": "prj_evil",
	} {
		refused("storage:write", "PUT", more, object{field: value})
	}
	refused("thread:read", "PUT", more, object{"scopes": []string{"openid", "storage:write", "thread:read"}})
	got := s.Call("GET", more, nil).Want(200)
	// What gives no access may be changed, also in one request with what stays as it is.
	s.Call("PUT", more, object{
		"name": "Other", "scopes": []string{"storage:write", "openid"}, "redirect_uris": got.Get("redirect_uris"),
		"client_type": "confidential", "grant_types": got.Get("grant_types"), "audience": nil,
	}).Want(200)
	s.Call("DELETE", more+"/users", nil).Want(200)
	s.Call("DELETE", more, nil).Want(200)
}

func TestCatalogueWarnsOfMemberScopes(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	if got := s.Call("GET", "/oidc/scopes", nil).Want(200); !strings.Contains(string(got.Body), "any role up to your own") {
		t.Errorf("got %s", got.Body)
	}
}

// TestResourceReadShowsNoCredentials compares callers of both faces, as key, token and client.
func TestResourceReadShowsNoCredentials(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	s.Call("POST", "/resource/"+s.OrgID+"/local", object{"resources": []object{
		{"type": "s3", "name": "scoped-bucket"}, {"type": "db", "name": "scoped"}, {"type": "kv", "name": "scoped"},
	}}).Want(201)
	var list struct{ S3, DB, KV []object }
	s.Call("GET", "/resource/"+s.OrgID+"/local", nil).Want(200).Decode(&list)
	secrets := []any{
		list.S3[0]["secret_key"], list.S3[0]["access_key"], list.DB[0]["password"], list.KV[0]["password"],
	}
	scopes := []string{"resource:read", "resource:write", "storage:read", "storage:write"}
	a, machine := machineClient(s, object{"scopes": scopes})
	narrow := url.Values{"grant_type": {"client_credentials"}, "scope": {"resource:read"}}
	token := s.RequestToken(a, narrow, nil, "").Text("access_token")
	for name, c := range map[string]struct {
		as    *installation.Steward
		shown bool
	}{
		"owner":                     {s, true},
		"key with resource:write":   {scopedKey(s, "resource:read", "resource:write"), true},
		"key with resource:read":    {scopedKey(s, "resource:read", "storage:write"), false},
		"client with resource:read": {s.As(token), false},
		"client with all":           {machine, true},
	} {
		for _, path := range []string{
			"/resource", "/resource/" + s.OrgID + "/local", "/sdk/resource", "/sdk/resource/" + s.OrgID + "/local",
		} {
			body := string(c.as.Call("GET", path, nil).Want(200).Body)
			for _, secret := range secrets {
				text, _ := secret.(string)
				if text == "" || strings.Contains(body, text) != c.shown {
					t.Errorf("%s of %s, secret %q: %s", path, name, text, body)
				}
			}
		}
	}
}

// TestAdminGetsNoCodeAtANewRedirectURI lets an admin add a redirect URI to a client that the owner uses, and
// rotate its secret. The owner's browser, which the admin sends to the authorization endpoint, must ask.
func TestAdminGetsNoCodeAtANewRedirectURI(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	a, b := s.NewApplication(object{"scopes": []string{"openid", "storage:write"}}), s.NewBrowser()
	p := s.NewRelyingParty(a, "openid", "storage:write")
	p.SignIn(b)
	wantAuthorizationCode(b, p, installation.RedirectURI, true)
	adminBrowser, _ := s.Invite("admin@example.com", "admin")
	scopes := []string{"openid", "oauth:read", "oauth:write", "storage:write"}
	token, _ := s.NewRelyingParty(s.NewApplication(object{"scopes": scopes}), scopes...).SignIn(adminBrowser)
	admin := s.As(token.AccessToken)
	const evil = "https://evil.example.com/cb"
	admin.Call("PUT", "/oidc/clients/"+a.ID, object{"redirect_uris": []string{installation.RedirectURI, evil}}).Want(200)
	admin.Call("POST", "/oidc/clients/"+a.ID+"/rotate-secret", nil).Want(200)
	wantAuthorizationCode(b, p, installation.RedirectURI, true)
	wantAuthorizationCode(b, p, evil, false)
}

// wantAuthorizationCode requires that a browser is sent to a redirect URI with a code, or with prompt=none with the error
// consent_required.
func wantAuthorizationCode(b *installation.Browser, p *installation.RelyingParty, uri string, want bool) {
	b.Steward.T.Helper()
	config := p.Config
	config.RedirectURL = uri
	challenge := oauth2.S256ChallengeOption(oauth2.GenerateVerifier())
	shown := b.Do("GET", config.AuthCodeURL("s", challenge), nil)
	silent := b.Do("GET", config.AuthCodeURL("s", challenge, oauth2.SetAuthURLParam("prompt", "none")), nil)
	sent := strings.Contains(shown.Location, "code=")
	if sent != want || !want && !strings.Contains(shown.Body, "evil.example.com") {
		b.Steward.T.Errorf("%s: a code is sent without a page: %t: %s", uri, sent, shown.Body)
	}
	if !strings.HasPrefix(silent.Location, uri) || strings.Contains(silent.Location, "error=consent_required") == want {
		b.Steward.T.Errorf("%s with prompt=none: sent to %s", uri, silent.Location)
	}
}
