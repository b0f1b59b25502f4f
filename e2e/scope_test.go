package e2e

import (
	"html"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

func TestKeysAreRestrictedToScopes(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		create := func(as *installation.Steward, scopes any) *installation.Response {
			return as.Call("POST", "/cli/apikey", object{"name": "k", "scopes": scopes})
		}
		create(s, []string{}).Want(422)
		create(s, []string{"webhook:everything"}).Want(422)
		create(s, []string{"openid"}).Want(422)
		create(s, "webhook:read").Want(422)
		made := create(s, []string{"webhook:read", "apikey:write", "webhook:read", "apikey:read"}).Want(201)
		for _, path := range []string{"/cli/apikey/" + made.Text("id"), "/sdk/cli/apikey/" + made.Text("id"), "/cli/apikey"} {
			if got := s.Call("GET", path, nil).Want(200); !strings.Contains(string(got.Body),
				`"scopes":["webhook:read","apikey:write","apikey:read"]`) {
				t.Errorf("%s: got %s", path, got.Body)
			}
		}
		free := create(s, nil).Want(201)
		if got := s.Call("GET", "/cli/apikey/"+free.Text("id"), nil).Want(200); strings.Contains(string(got.Body), "scopes") {
			t.Errorf("a key without scopes: %s", got.Body)
		}

		scoped := s.As(made.Text("value"))
		scoped.Call("GET", "/webhook/list", nil).Want(200)
		scoped.Call("POST", "/webhook/create", object{"name": "w"}).Want(403)
		refused := create(scoped, []string{"webhook:read", "webhook:write"}).Want(403)
		if !strings.Contains(refused.Text("detail"), "the scope webhook:write is required") {
			t.Errorf("got %s", refused.Body)
		}
		heir := scoped.As(create(scoped, nil).Want(201).Text("value")) // has the scopes of its maker
		heir.Call("GET", "/webhook/list", nil).Want(200)
		heir.Call("POST", "/webhook/create", object{"name": "w"}).Want(403)
		less := scoped.As(create(heir, []string{"apikey:read"}).Want(201).Text("value"))
		less.Call("GET", "/cli/apikey", nil).Want(200)
		less.Call("GET", "/webhook/list", nil).Want(403)
		create(less, []string{"apikey:read"}).Want(403)
	})
}

var keyScopes = []string{"openid", "offline_access", "account:read", "apikey:write", "webhook:read"}

// TestKeyOfATokenDiesWithItsConsent creates a key with an access token and another with that key, and
// revokes the consent in all ways.
func TestKeyOfATokenDiesWithItsConsent(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		me := s.Call("GET", "/cli/auth/user", nil).Text("id")
		revoke := func(path string) func(installation.Application, *installation.Browser) {
			return func(a installation.Application, _ *installation.Browser) {
				s.Call("DELETE", strings.NewReplacer("{id}", a.ID, "{me}", me).Replace(path), nil).Want(200)
			}
		}
		for name, revoke := range map[string]func(installation.Application, *installation.Browser){
			"by a manager":   revoke("/oidc/clients/{id}/users/{me}"),
			"all users":      revoke("/oidc/clients/{id}/users"),
			"by the user":    revoke("/oidc/user/consent/{id}"),
			"client deleted": revoke("/oidc/clients/{id}"),
			"scope declined": func(a installation.Application, b *installation.Browser) { declineScope(s, a, b) },
		} {
			t.Run(name, func(t *testing.T) {
				a, b := s.NewApplication(object{"scopes": keyScopes}), s.NewBrowser()
				token, _ := s.NewRelyingParty(a, keyScopes...).SignIn(b)
				app := s.As(token.AccessToken)
				app.Call("POST", "/cli/apikey", object{"name": "k", "scopes": []string{"oauth:write"}}).Want(403)
				first := s.As(app.Call("POST", "/cli/apikey", object{"name": "k"}).Want(201).Text("value"))
				second := s.As(first.Call("POST", "/cli/apikey", object{"name": "k"}).Want(201).Text("value"))
				stays := s.KeyOf("")
				for _, key := range []*installation.Steward{first, second, stays} {
					key.Call("GET", "/webhook/list", nil).Want(200)
				}
				first.Call("POST", "/webhook/create", object{"name": "w"}).Want(403)
				revoke(a, b)
				first.Call("GET", "/webhook/list", nil).Want(401)
				second.Call("GET", "/webhook/list", nil).Want(401)
				app.Call("POST", "/cli/apikey", object{"name": "k"}).Want(401)
				stays.Call("GET", "/webhook/list", nil).Want(200)
			})
		}
	})
}

// declineScope consents again, without a scope that was granted before.
func declineScope(s *installation.Steward, a installation.Application, b *installation.Browser) {
	s.T.Helper()
	config := s.NewRelyingParty(a, keyScopes...).Config
	address := config.AuthCodeURL("s", oauth2.SetAuthURLParam("prompt", "consent"), oauth2.S256ChallengeOption("v"))
	m := installation.FirstForm.FindStringSubmatch(b.Do("GET", address, nil).Body)
	if m == nil {
		s.T.Fatal("there is no consent page")
	}
	values := installation.FormValues(m[3])
	values["scope"] = slices.DeleteFunc(values["scope"], func(scope string) bool { return scope == "account:read" })
	b.Do("POST", s.URL+html.UnescapeString(m[2]), values)
}

func TestKeyOfATokenDiesOnTheOtherReplica(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "postgres")
	other := s.BalancedReplica()
	a := s.NewApplication(object{"scopes": keyScopes})
	token, _ := s.NewRelyingParty(a, keyScopes...).SignIn(s.NewBrowser())
	key := other.As(other.As(token.AccessToken).Call("POST", "/cli/apikey", object{"name": "k"}).Want(201).Text("value"))
	key.Call("GET", "/webhook/list", nil).Want(200)
	s.Call("DELETE", "/oidc/user/consent/"+a.ID, nil).Want(200)
	// A token that is still accepted there creates no key.
	other.As(token.AccessToken).Call("POST", "/cli/apikey", object{"name": "k"}).Want(401)
	waittest.Within(t, time.Second, "the other replica to refuse the key", func() bool {
		return key.Call("GET", "/webhook/list", nil).Status == 401
	})
}

// machineClient returns the installation as a client that acts as itself uses it.
func machineClient(s *installation.Steward, settings object) (installation.Application, *installation.Steward) {
	s.T.Helper()
	settings["grant_types"] = []string{"client_credentials"}
	a := s.NewApplication(settings)
	return a, s.As(s.RequestToken(a, clientCredentials, nil, "").Text("access_token"))
}

func TestClientActsAsItself(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	scopes := []string{"webhook:write", "thread:read", "thread:write"}
	a, machine := machineClient(s, object{"scopes": scopes})
	hook := machine.Call("POST", "/webhook/create", object{"name": "w"}, "Idempotency-Key", "k").Want(201)
	if hook.Text("created_by") != a.ID {
		t.Errorf("got %s", hook.Body)
	}
	again := machine.Call("POST", "/webhook/create", object{"name": "w"}, "Idempotency-Key", "k").Want(201)
	_, second := machineClient(s, object{"scopes": scopes})
	apart := second.Call("POST", "/webhook/create", object{"name": "w"}, "Idempotency-Key", "k").Want(201)
	if again.Text("id") != hook.Text("id") || apart.Text("id") == hook.Text("id") {
		t.Error("Idempotency-Key does not tell clients apart")
	}
	destination := machine.Call("POST", "/webhook/destination-create/"+hook.Text("id"), aHook).Want(201)
	if destination.Text("created_by") != a.ID {
		t.Errorf("got %s", destination.Body)
	}
	machine.Call("PUT", "/thread/t1", object{"project_id": "p1"}).Want(200)
	machine.Call("DELETE", "/thread/t1", nil).Want(204)
	if got := s.Call("GET", "/thread?deleted=true", nil).Want(200); !strings.Contains(string(got.Body), `"deleted_by":"`+a.ID+`"`) {
		t.Errorf("got %s", got.Body)
	}
	var lines []object
	s.Call("GET", "/audit?limit=1", nil).Want(200).Decode(&lines)
	if l := lines[0]; l["action"] != "thread.delete" || l["client_id"] != a.ID || l["user_id"] != nil || l["key_id"] != nil {
		t.Errorf("the audit log has %v", l)
	}
	s.Call("DELETE", "/oidc/clients/"+a.ID, nil).Want(200)
	machine.Call("GET", "/thread", nil).Want(401)
	second.Call("GET", "/thread", nil).Want(200)
}

func TestClientIsConfinedToItsProject(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		scopes := []string{"thread:read", "thread:write"}
		a, machine := machineClient(s, object{"scopes": scopes, "project_id": "red"})
		s.Call("PUT", "/thread/green", object{"project_id": "green"}).Want(200)
		machine.Call("PUT", "/thread/red", object{"project_id": "red"}).Want(200)
		machine.Call("PUT", "/thread/other", object{"project_id": "green"}).Want(403)
		machine.Call("GET", "/thread/green", nil).Want(404)
		if got := machine.Call("GET", "/thread", nil).IDs(); got != "red" {
			t.Errorf("it lists %s", got)
		}
		s.Call("DELETE", "/cli/project/red", nil).Want(204)
		machine.Call("GET", "/thread", nil).Want(401)
		if got := s.TokenResponse(a, clientCredentials, nil, ""); got.Status != 400 {
			t.Errorf("a client of a deleted project gets %d %s", got.Status, got.Body)
		}
	})
}
