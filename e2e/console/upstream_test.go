package console

import (
	"testing"

	"steward/e2e/installation"
)

func TestConsoleManagesSignInProviders(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	c := signedIn(t, s)
	c.at("/settings", "Members sign in here with a password")
	c.press("Add provider")
	c.fill("name", "Acme")
	c.fill("issuer", "http://login.acme.example")
	c.fill("client_id", "steward")
	c.fill("client_secret", "a secret")
	c.press("Add")
	c.see("expected an https URL")
	c.fill("issuer", "https://login.acme.example")
	c.fill("groups_claim", "groups")
	c.fill("group_roles", "engineering = admin")
	c.press("Add")
	c.see("The sign-in provider was added.")
	c.see("invited only")
	c.press("Edit Acme")
	c.see("Leave it empty to keep the stored one")
	c.fill("name", "Acme Inc")
	c.press("Save")
	c.see("The sign-in provider was changed.")
	var list []struct {
		Name       string
		HasSecret  bool                           `json:"has_secret"`
		GroupRoles []struct{ Group, Role string } `json:"group_roles"`
	}
	s.Call("GET", "/oidc/upstream", nil).Want(200).Decode(&list)
	if len(list) != 1 || list[0].Name != "Acme Inc" || !list[0].HasSecret || len(list[0].GroupRoles) != 1 {
		t.Errorf("the providers are %+v", list)
	}
	c.press("Delete Acme Inc")
	c.see("Nobody can sign in with")
	c.press("Delete")
	c.see("The sign-in provider was deleted.")
	c.clean()
}
