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
	c.Press("Add provider")
	c.Fill("name", "Acme")
	c.Fill("issuer", "http://login.acme.example")
	c.Fill("client_id", "steward")
	c.Fill("client_secret", "a secret")
	c.Press("Add")
	c.See("expected an https URL")
	c.Fill("issuer", "https://login.acme.example")
	c.Fill("groups_claim", "groups")
	c.Fill("group_roles", "engineering = admin")
	c.Press("Add")
	c.See("The sign-in provider was added.")
	c.See("invited only")
	c.Press("Edit Acme")
	c.See("Leave it empty to keep the stored one")
	c.Fill("name", "Acme Inc")
	c.Press("Save")
	c.See("The sign-in provider was changed.")
	var list []struct {
		Name       string
		HasSecret  bool                           `json:"has_secret"`
		GroupRoles []struct{ Group, Role string } `json:"group_roles"`
	}
	s.Call("GET", "/oidc/upstream", nil).Want(200).Decode(&list)
	if len(list) != 1 || list[0].Name != "Acme Inc" || !list[0].HasSecret || len(list[0].GroupRoles) != 1 {
		t.Errorf("the providers are %+v", list)
	}
	c.Press("Delete Acme Inc")
	c.See("Nobody can sign in with")
	c.Press("Delete")
	c.See("The sign-in provider was deleted.")
	c.Clean()
}
