package token_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/oidc"
	"steward/internal/oidc/provider/authorize"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

func TestClientCredentialsTokenHasNoUserAndStoresNothing(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		token := a.Post("/oauth/token", "grant_type", "client_credentials", "scope", "webhook:read").
			Want(http.StatusOK)
		if got := token.Text("scope"); got != "webhook:read" ||
			token.Text("id_token")+token.Text("refresh_token") != "" {
			t.Fatalf("got %s", token.Body)
		}
		if token.Header.Get("Cache-Control") != "no-store" {
			t.Error("the response may be cached")
		}
		if !a.Active(token.Text("access_token")) {
			t.Error("the token is not active")
		}
		a.Post("/oauth/token", "grant_type", "client_credentials", "scope", "oauth:write").
			WantRefused(oauth.InvalidScope)
		f.Userinfo(token.Text("access_token")).WantError(http.StatusForbidden, "insufficient_scope")
		var rows int
		providertest.Must(t, f.DB.Read(t.Context()).Row(`SELECT count(*) FROM oidc_grants`).Scan(&rows))
		if rows != 0 {
			t.Errorf("%d grants were stored", rows)
		}
		a.Post("/revoke", "token", token.Text("access_token")).Want(http.StatusOK)
		if a.Active(token.Text("access_token")) {
			t.Error("the revoked token is active")
		}
	})
}

func TestCodesAndTokensExpireAfterTheLifetimesOfTheClient(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		if grant.CodeLifetime > time.Minute || authorize.PushedLifetime > 90*time.Second ||
			grant.DeviceLifetime > 10*time.Minute {
			t.Error("codes are valid for too long")
		}
		a := f.NewApp(strings.Replace(providertest.Confidential, "{", `{"access_token_lifetime_seconds": 60,
			"id_token_lifetime_seconds": 120, "refresh_token_lifetime_seconds": 300,`, 1))
		tokens, late := a.Tokens(), a.Code()
		known := providertest.Claims(t, tokens["id_token"])
		if tokens["expires_in"] != 60.0 || known["exp"].(float64)-known["iat"].(float64) != 120 {
			t.Errorf("got %v", tokens)
		}
		f.Clock.Add(time.Minute - time.Second)
		f.Userinfo(tokens["access_token"].(string)).Want(http.StatusOK)
		f.Clock.Add(time.Second)
		a.WantInvalid(tokens["access_token"], "expired")
		a.Redeem(late).WantRefused(oauth.InvalidGrant)
		f.Clock.Add(3 * time.Minute)
		next := a.Refresh(tokens["refresh_token"].(string)).Want(http.StatusOK).Text("refresh_token")
		f.Clock.Add(time.Minute)
		a.Refresh(next).WantRefused(oauth.InvalidGrant)
	})
}

// TestTokenResponsesAreCounted checks the hooks for metrics. A grant type that the endpoint does
// not know has a fixed label, so that clients cannot make up new ones.
func TestTokenResponsesAreCounted(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	token := a.Tokens()["refresh_token"].(string)
	a.Refresh(token).Want(http.StatusOK)
	a.Refresh("rt_nothing").Want(http.StatusBadRequest)
	a.Post("/oauth/token", "grant_type", "password").Want(http.StatusBadRequest)
	a.WithSecret("wrong").Refresh(token).Want(http.StatusUnauthorized)
	f.Browser().Do("POST", f.URL+"/oauth/token", nil).Want(http.StatusBadRequest)
	want := []string{
		"issued authorization_code", "issued refresh_token", "refused refresh_token invalid_grant",
		"refused unknown unsupported_grant_type", "refused refresh_token invalid_client", "refused unknown invalid_request",
	}
	if lines := f.Observed.Take(); !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q", lines, want)
	}
}

// TestEachGrantTypeIsServed checks that the endpoint knows each grant type that clients may have and the
// discovery document lists.
func TestEachGrantTypeIsServed(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	for _, name := range oidc.GrantTypes() {
		if got := a.Post("/oauth/token", "grant_type", name).JSON()["error"]; got == oauth.UnsupportedGrantType {
			t.Errorf("%s: %v", name, got)
		}
	}
}
