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
	c.press("New registration token")
	c.fill("name", "Editors")
	c.fill("uses", "0")
	c.press("Create")
	c.see("expected 1 to 10000")
	c.fill("uses", "5")
	c.press("Create")
	c.see("it is not shown again")
	c.press("I have stored it")
	c.see("Editors")

	made := s.Call("POST", "/oidc/registration-token", map[string]any{"name": "Script"}).Want(201)
	metadata := map[string]any{"client_name": "Notes", "redirect_uris": []string{"https://notes.example.com/callback"}}
	client := s.As(made.Text("token")).Call("POST", "/register", metadata).Want(201)
	c.at("/oauth/clients", "Notes")
	c.see("registered")
	c.at("/oauth/clients/"+client.Text("client_id"), "by itself, with a registration token")
	c.at("/settings", "Script")
	c.press("Delete Editors")
	c.see("Apps that have registered with it stay")
	c.press("Delete")
	c.see("The registration token was deleted.")
	c.clean()
}
