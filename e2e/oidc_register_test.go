package e2e

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"steward/e2e/installation"
	"steward/e2e/process"
)

// TestRegistrationTokenOfAnOrganization registers a client in an organization that is not the first, and
// deletes that organization.
func TestRegistrationTokenOfAnOrganization(t *testing.T) {
	t.Parallel()
	installation.EachWithRegistration(t, func(t *testing.T, s *installation.Steward) {
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

// TestClientOfADocument signs a user in to a client that its document describes, and calls the API as that user.
func TestClientOfADocument(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			var uri string
			documents := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"client_id": %q, "client_name": "Editor", "redirect_uris": [%q]}`, uri, installation.RedirectURI)
			}))
			t.Cleanup(documents.Close)
			uri = documents.URL + "/client.json"
			roots := filepath.Join(t.TempDir(), "roots.pem")
			certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: documents.Certificate().Raw})
			s := installation.Prepare(t, name, "--registration", "token")
			s.Must(os.WriteFile(roots, certificate, 0o600))
			s.Env = []string{
				"STEWARD_ADMIN_EMAIL=" + installation.AdminEmail, "STEWARD_ADMIN_PASSWORD=" + installation.AdminPassword,
				"SSL_CERT_FILE=" + roots,
			}
			s.Start()
			config := oauth2.Config{
				ClientID: uri, RedirectURL: installation.RedirectURI, Scopes: []string{"openid", "offline_access", "thread:read"},
				Endpoint: oauth2.Endpoint{
					AuthURL: s.URL + "/authorize", TokenURL: s.URL + "/oauth/token", AuthStyle: oauth2.AuthStyleInParams,
				},
			}
			verifier := oauth2.GenerateVerifier()
			got := s.NewBrowser().Authorize(config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier)))
			token, err := config.Exchange(t.Context(), got.Get("code"), oauth2.VerifierOption(verifier))
			s.Must(err)
			token.Expiry = time.Now().Add(-time.Minute) // so that it is refreshed
			token, err = config.TokenSource(t.Context(), token).Token()
			s.Must(err)
			s.As(token.AccessToken).Call("GET", "/thread", nil).Want(200)
			s.As(token.AccessToken).Call("GET", "/webhook/list", nil).Want(403)
			var clients []struct {
				ID, Registration string
				URI              string `json:"document_uri"`
			}
			s.Call("GET", "/oidc/clients", nil).Want(200).Decode(&clients)
			if len(clients) != 1 || clients[0].URI != uri || clients[0].Registration != "document" {
				t.Fatalf("the organization has %+v", clients)
			}
			s.Call("DELETE", "/oidc/clients/"+clients[0].ID, nil).Want(200)
			s.As(token.AccessToken).Call("GET", "/thread", nil).Want(401)
		})
	}
}
