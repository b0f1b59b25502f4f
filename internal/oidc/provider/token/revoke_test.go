package token_test

import (
	"net/http"
	"testing"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

// TestRevocation checks that revoking an access token revokes that one, and revoking a refresh
// token the grant.
func TestRevocation(t *testing.T) {
	providertest.Each(t, func(_ *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		tokens := a.Tokens()
		more := a.Refresh(tokens["refresh_token"].(string)).Want(http.StatusOK)
		a.Post("/revoke", "token", tokens["access_token"].(string), "token_type_hint", "refresh_token").
			Want(http.StatusOK)
		a.WantInvalid(tokens["access_token"], "revoked")
		f.Userinfo(more.Text("access_token")).Want(http.StatusOK)
		a.Post("/revoke", "token", more.Text("refresh_token")).Want(http.StatusOK)
		a.WantInvalid(more.Text("access_token"), "refresh token revoked")
		a.Refresh(more.Text("refresh_token")).WantRefused(oauth.InvalidGrant)
		a.Post("/revoke", "token", "never seen").Want(http.StatusOK)
		a.Post("/revoke").WantRefused(oauth.InvalidRequest)
		impostor := a.WithSecret("wrong")
		impostor.Post("/revoke", "token", "x").WantError(http.StatusUnauthorized, oauth.InvalidClient)
		p := f.NewApp(providertest.Public)
		p.Post("/introspect", "token", "x").WantError(http.StatusUnauthorized, oauth.InvalidClient)
	})
}
