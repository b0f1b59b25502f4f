package clients

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
)

// TestMCPClientSignsInByItself uses the MCP SDK, which knows nothing but the URL of the API.
func TestMCPClientSignsInByItself(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("../../oidc/node_modules/@modelcontextprotocol/sdk"); err != nil {
		t.Fatal("the MCP SDK is not installed: run `make deps`")
	}
	installation.EachWithRegistration(t, func(t *testing.T, s *installation.Steward) {
		cmd := exec.CommandContext(t.Context(), "node", "../../oidc/mcp_client.mjs", s.URL, installation.RedirectURI,
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
