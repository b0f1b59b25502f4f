package console

import (
	"testing"

	"steward/e2e/installation"
)

func TestConsoleManagesRegistrationTokens(t *testing.T) {
	t.Parallel()
	s := installation.Prepare(t, "sqlite", "--registration", "token")
	s.Env = []string{
		"STEWARD_ADMIN_EMAIL=" + installation.AdminEmail, "STEWARD_ADMIN_PASSWORD=" + installation.AdminPassword,
	}
	s.Start()
	c := signedIn(t, s)
	c.at("/settings", "Apps register at")
	c.Press("New registration token")
	c.Fill("name", "Editors")
	c.Fill("uses", "0")
	c.Press("Create")
	c.See("expected 1 to 10000")
	c.Fill("uses", "5")
	c.Press("Create")
	c.See("it is not shown again")
	c.Press("I have stored it")
	c.See("Editors")

	made := s.Call("POST", "/oidc/registration-token", map[string]any{"name": "Script"}).Want(201)
	metadata := map[string]any{"client_name": "Notes", "redirect_uris": []string{"https://notes.example.com/callback"}}
	client := s.As(made.Text("token")).Call("POST", "/register", metadata).Want(201)
	c.at("/oauth/clients", "Notes")
	c.See("registered")
	c.at("/oauth/clients/"+client.Text("client_id"), "by itself, with a registration token")
	c.at("/settings", "Script")
	c.Press("Delete Editors")
	c.See("Apps that have registered with it stay")
	c.Press("Delete")
	c.See("The registration token was deleted.")
	c.Clean()
}
