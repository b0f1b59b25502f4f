package e2e

import (
	"testing"

	"steward/e2e/installation"
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
