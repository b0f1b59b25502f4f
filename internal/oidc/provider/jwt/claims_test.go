package jwt_test

import (
	"net/http"
	"testing"

	"steward/internal/oidc/provider/providertest"
)

func TestEmailIsNotVerified(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	for scope, want := range map[string]any{"openid email": false, "openid profile": nil} {
		tokens := a.Tokens("scope", scope)
		info := f.Userinfo(tokens["access_token"].(string)).Want(http.StatusOK).JSON()
		for where, got := range map[string]map[string]any{
			"ID token": providertest.Claims(t, tokens["id_token"]), "userinfo": info,
		} {
			verified, present := got["email_verified"]
			if verified != want || present != (want != nil) {
				t.Errorf("%s with %s: %v", where, scope, got)
			}
		}
	}
	supported, _ := f.Browser().Get(f.URL + "/.well-known/openid-configuration").JSON()["claims_supported"].([]any)
	for _, claim := range supported {
		if claim == "email_verified" {
			return
		}
	}
	t.Errorf("claims_supported: %v", supported)
}
