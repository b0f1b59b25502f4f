package e2e

import (
	"html"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

func TestKeysAreRestrictedToScopes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		create := func(as *steward, scopes any) *response {
			return as.call("POST", "/cli/apikey", object{"name": "k", "scopes": scopes})
		}
		create(s, []string{}).want(422)
		create(s, []string{"webhook:everything"}).want(422)
		create(s, []string{"openid"}).want(422)
		create(s, "webhook:read").want(422)
		made := create(s, []string{"webhook:read", "apikey:write", "webhook:read", "apikey:read"}).want(201)
		for _, path := range []string{"/cli/apikey/" + made.text("id"), "/sdk/cli/apikey/" + made.text("id"), "/cli/apikey"} {
			if got := s.call("GET", path, nil).want(200); !strings.Contains(string(got.body),
				`"scopes":["webhook:read","apikey:write","apikey:read"]`) {
				t.Errorf("%s: got %s", path, got.body)
			}
		}
		free := create(s, nil).want(201)
		if got := s.call("GET", "/cli/apikey/"+free.text("id"), nil).want(200); strings.Contains(string(got.body), "scopes") {
			t.Errorf("a key without scopes: %s", got.body)
		}

		scoped := s.as(made.text("value"))
		scoped.call("GET", "/webhook/list", nil).want(200)
		scoped.call("POST", "/webhook/create", object{"name": "w"}).want(403)
		refused := create(scoped, []string{"webhook:read", "webhook:write"}).want(403)
		if !strings.Contains(refused.text("detail"), "the scope webhook:write is required") {
			t.Errorf("got %s", refused.body)
		}
		heir := scoped.as(create(scoped, nil).want(201).text("value")) // has the scopes of its maker
		heir.call("GET", "/webhook/list", nil).want(200)
		heir.call("POST", "/webhook/create", object{"name": "w"}).want(403)
		less := scoped.as(create(heir, []string{"apikey:read"}).want(201).text("value"))
		less.call("GET", "/cli/apikey", nil).want(200)
		less.call("GET", "/webhook/list", nil).want(403)
		create(less, []string{"apikey:read"}).want(403)
	})
}

var keyScopes = []string{"openid", "offline_access", "account:read", "apikey:write", "webhook:read"}

// TestKeyOfATokenDiesWithItsConsent creates a key with an access token and another with that key, and
// revokes the consent in all ways.
func TestKeyOfATokenDiesWithItsConsent(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		me := s.call("GET", "/cli/auth/user", nil).text("id")
		revoke := func(path string) func(application, *browser) {
			return func(a application, _ *browser) {
				s.call("DELETE", strings.NewReplacer("{id}", a.id, "{me}", me).Replace(path), nil).want(200)
			}
		}
		for name, revoke := range map[string]func(application, *browser){
			"by a manager":   revoke("/oidc/clients/{id}/users/{me}"),
			"all users":      revoke("/oidc/clients/{id}/users"),
			"by the user":    revoke("/oidc/user/consent/{id}"),
			"client deleted": revoke("/oidc/clients/{id}"),
			"scope declined": s.decline,
		} {
			t.Run(name, func(t *testing.T) {
				a, b := s.application(object{"scopes": keyScopes}), s.browser()
				token, _ := s.relyingParty(a, keyScopes...).signIn(b)
				app := s.as(token.AccessToken)
				app.call("POST", "/cli/apikey", object{"name": "k", "scopes": []string{"oauth:write"}}).want(403)
				first := s.as(app.call("POST", "/cli/apikey", object{"name": "k"}).want(201).text("value"))
				second := s.as(first.call("POST", "/cli/apikey", object{"name": "k"}).want(201).text("value"))
				stays := s.keyOf("")
				for _, key := range []*steward{first, second, stays} {
					key.call("GET", "/webhook/list", nil).want(200)
				}
				first.call("POST", "/webhook/create", object{"name": "w"}).want(403)
				revoke(a, b)
				first.call("GET", "/webhook/list", nil).want(401)
				second.call("GET", "/webhook/list", nil).want(401)
				app.call("POST", "/cli/apikey", object{"name": "k"}).want(401)
				stays.call("GET", "/webhook/list", nil).want(200)
			})
		}
	})
}

// decline consents again, without a scope that was granted before.
func (s *steward) decline(a application, b *browser) {
	s.t.Helper()
	config := s.relyingParty(a, keyScopes...).config
	address := config.AuthCodeURL("s", oauth2.SetAuthURLParam("prompt", "consent"), oauth2.S256ChallengeOption("v"))
	m := firstForm.FindStringSubmatch(b.do("GET", address, nil).body)
	if m == nil {
		s.t.Fatal("there is no consent page")
	}
	values := formValues(m[3])
	values["scope"] = slices.DeleteFunc(values["scope"], func(scope string) bool { return scope == "account:read" })
	b.do("POST", s.URL+html.UnescapeString(m[2]), values)
}

func TestKeyOfATokenDiesOnTheOtherReplica(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, "postgres")
	other := s.balancedReplica()
	a := s.application(object{"scopes": keyScopes})
	token, _ := s.relyingParty(a, keyScopes...).signIn(s.browser())
	key := other.as(other.as(token.AccessToken).call("POST", "/cli/apikey", object{"name": "k"}).want(201).text("value"))
	key.call("GET", "/webhook/list", nil).want(200)
	s.call("DELETE", "/oidc/user/consent/"+a.id, nil).want(200)
	// A token that is still accepted there creates no key.
	other.as(token.AccessToken).call("POST", "/cli/apikey", object{"name": "k"}).want(401)
	within(t, time.Second, "the other replica to refuse the key", func() bool {
		return key.call("GET", "/webhook/list", nil).status == 401
	})
}

// machine returns the installation as a client that acts as itself uses it.
func (s *steward) machine(settings object) (application, *steward) {
	s.t.Helper()
	settings["grant_types"] = []string{"client_credentials"}
	a := s.application(settings)
	return a, s.as(s.token(a, clientCredentials, nil, "").text("access_token"))
}

func TestClientActsAsItself(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		scopes := []string{"account:read", "account:write", "apikey:read", "apikey:write", "webhook:write", "thread:read", "thread:write"}
		a, machine := s.machine(object{"scopes": scopes})
		hook := machine.call("POST", "/webhook/create", object{"name": "w"}, "Idempotency-Key", "k").want(201)
		if hook.text("created_by") != a.id {
			t.Errorf("got %s", hook.body)
		}
		again := machine.call("POST", "/webhook/create", object{"name": "w"}, "Idempotency-Key", "k").want(201)
		_, second := s.machine(object{"scopes": scopes})
		apart := second.call("POST", "/webhook/create", object{"name": "w"}, "Idempotency-Key", "k").want(201)
		if again.text("id") != hook.text("id") || apart.text("id") == hook.text("id") {
			t.Error("Idempotency-Key does not tell clients apart")
		}
		destination := machine.call("POST", "/webhook/destination-create/"+hook.text("id"), aHook).want(201)
		if destination.text("created_by") != a.id {
			t.Errorf("got %s", destination.body)
		}
		machine.call("PUT", "/thread/t1", object{"project_id": "p1"}).want(200)
		machine.call("DELETE", "/thread/t1", nil).want(204)
		if got := s.call("GET", "/thread?deleted=true", nil).want(200); !strings.Contains(string(got.body), `"deleted_by":"`+a.id+`"`) {
			t.Errorf("got %s", got.body)
		}
		var lines []object
		s.call("GET", "/audit?limit=1", nil).want(200).decode(&lines)
		if l := lines[0]; l["action"] != "thread.delete" || l["client_id"] != a.id || l["user_id"] != nil || l["key_id"] != nil {
			t.Errorf("the audit log has %v", l)
		}
		for _, route := range []string{
			"GET /cli/auth/user", "GET /oidc/user/consent", "DELETE /oidc/user/consent/x", "GET /cli/apikey", "POST /cli/apikey",
		} {
			method, path, _ := strings.Cut(route, " ")
			got := machine.call(method, path, object{"name": "k"}).want(403)
			if !strings.Contains(got.text("detail"), "a user is required") {
				t.Errorf("%s: got %s", route, got.body)
			}
		}
		s.call("DELETE", "/oidc/clients/"+a.id, nil).want(200)
		machine.call("GET", "/thread", nil).want(401)
		second.call("GET", "/thread", nil).want(200)
	})
}

func TestClientIsConfinedToItsProject(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		scopes := []string{"thread:read", "thread:write", "webhook:read", "resource:read"}
		a, machine := s.machine(object{"scopes": scopes, "project_id": "red"})
		s.call("PUT", "/thread/green", object{"project_id": "green"}).want(200)
		machine.call("PUT", "/thread/red", object{"project_id": "red"}).want(200)
		machine.call("PUT", "/thread/other", object{"project_id": "green"}).want(403)
		machine.call("GET", "/thread/green", nil).want(404)
		if got := machine.call("GET", "/thread", nil).ids(); got != "red" {
			t.Errorf("it lists %s", got)
		}
		machine.call("GET", "/webhook/list", nil).want(403)
		machine.call("GET", "/cli/region", nil).want(200)
		s.call("DELETE", "/cli/project/red", nil).want(204)
		machine.call("GET", "/thread", nil).want(401)
		if got := s.tokenResponse(a, clientCredentials, nil, ""); got.status != 400 {
			t.Errorf("a client of a deleted project gets %d %s", got.status, got.body)
		}
	})
}
