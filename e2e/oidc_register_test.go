package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/process"
)

// eachWithRegistration is installation.EachWithOwner for a server at which programs on the machine of their
// user register themselves.
func eachWithRegistration(t *testing.T, test func(t *testing.T, s *installation.Steward)) {
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := installation.Prepare(t, name, "--registration", "loopback")
			s.Env = []string{
				"STEWARD_ADMIN_EMAIL=" + installation.AdminEmail, "STEWARD_ADMIN_PASSWORD=" + installation.AdminPassword,
			}
			s.Start()
			test(t, s)
		})
	}
}

// TestMCPClientSignsInByItself uses the MCP SDK, which knows nothing but the URL of the API.
func TestMCPClientSignsInByItself(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("oidc/node_modules/@modelcontextprotocol/sdk"); err != nil {
		t.Fatal("the MCP SDK is not installed: run `make deps`")
	}
	eachWithRegistration(t, func(t *testing.T, s *installation.Steward) {
		cmd := exec.CommandContext(t.Context(), "node", "oidc/mcp_client.mjs", s.URL, installation.RedirectURI,
			"openid offline_access thread:read")
		var problems strings.Builder
		cmd.Stderr = &problems
		in, err := cmd.StdinPipe()
		s.Must(err)
		out, err := cmd.StdoutPipe()
		s.Must(err)
		s.Must(cmd.Start())
		lines := bufio.NewScanner(out)
		next := func(printed any) {
			t.Helper()
			if !lines.Scan() {
				t.Fatalf("the MCP client has stopped: %v: %s", cmd.Wait(), problems.String())
			}
			s.Must(json.Unmarshal(lines.Bytes(), printed))
		}
		var ask struct{ Visit string }
		next(&ask)
		redirect := s.NewBrowser().Visit(ask.Visit)
		_, err = fmt.Fprintln(in, redirect.Location)
		s.Must(err)
		var got struct {
			Results  []string
			Statuses []int
			Rotated  bool
			Client   struct {
				ID string `json:"client_id"`
			}
		}
		next(&got)
		s.Must(cmd.Wait())
		if !reflect.DeepEqual(got.Results, []string{"REDIRECT", "AUTHORIZED", "AUTHORIZED"}) ||
			!reflect.DeepEqual(got.Statuses, []int{200, 200}) || !got.Rotated {
			t.Errorf("got %+v", got)
		}
		registered := s.Call("GET", "/oidc/clients/"+got.Client.ID, nil).Want(200)
		if registered.Text("registration") != "anonymous" {
			t.Errorf("got %s", registered.Body)
		}
		s.Call("DELETE", "/oidc/clients/"+got.Client.ID, nil).Want(200)
	})
}

// TestRegistrationTokenOfAnOrganization registers a client in an organization that is not the first, and
// deletes that organization.
func TestRegistrationTokenOfAnOrganization(t *testing.T) {
	t.Parallel()
	eachWithRegistration(t, func(t *testing.T, s *installation.Steward) {
		second := s.SecondOrganization()
		made := second.Call("POST", "/oidc/registration-token", object{"name": "team"}).Want(201)
		metadata := object{"redirect_uris": []string{"https://app.example.com/callback"}, "client_name": "App"}
		client := s.As(made.Text("token")).Call("POST", "/register", metadata).Want(201)
		path := "/register/" + client.Text("client_id")
		second.Call("GET", "/oidc/clients/"+client.Text("client_id"), nil).Want(200)
		s.Call("GET", "/oidc/clients/"+client.Text("client_id"), nil).Want(404)
		s.Call("DELETE", "/oidc/registration-token/"+made.Text("id"), nil).Want(404)
		s.As(client.Text("registration_access_token")).Call("GET", path, nil).Want(200)

		second.Call("DELETE", "/cli/organization/"+second.OrgID, nil).Want(200)
		s.As(made.Text("token")).Call("POST", "/register", metadata).Want(401)
		s.As(client.Text("registration_access_token")).Call("GET", path, nil).Want(401)
	})
}
