package token_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

// TestVerifierMustMatchTheChallenge includes the downgrade: a verifier without a challenge.
func TestVerifierMustMatchTheChallenge(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	redeem := func(code, with string) *providertest.Response {
		return a.Post("/oauth/token", "grant_type", "authorization_code", "code", code,
			"redirect_uri", providertest.Callback, "code_verifier", with)
	}
	code := a.Code()
	redeem(code, strings.Repeat("x", 43)).WantRefused(oauth.InvalidGrant)
	redeem(code, providertest.Verifier).WantRefused(oauth.InvalidGrant) // the code is used up
	redeem(a.Code(), "").WantRefused(oauth.InvalidGrant)
	redeem(a.Code("code_challenge", "", "code_challenge_method", ""),
		providertest.Verifier).WantRefused(oauth.InvalidGrant)
	redeem(a.Code("code_challenge", "", "code_challenge_method", ""), "").Want(http.StatusOK)
}

func TestCodeReuseRevokesItsTokens(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		code := a.Code()
		tokens := a.Redeem(code).Want(http.StatusOK).JSON()
		f.Userinfo(tokens["access_token"].(string)).Want(http.StatusOK)
		a.Redeem(code).WantRefused(oauth.InvalidGrant)
		a.WantInvalid(tokens["access_token"], "after the reuse")
		if a.Active(tokens["access_token"].(string)) {
			t.Error("the token is active")
		}
		a.Refresh(tokens["refresh_token"].(string)).WantRefused(oauth.InvalidGrant)
	})
}

func TestConcurrentRedemptionsOfACodeIssueTokensOnce(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		code := a.Code()
		var mu sync.Mutex
		var wg sync.WaitGroup
		var won []string
		for range 16 {
			wg.Go(func() {
				r := a.Redeem(code)
				mu.Lock()
				defer mu.Unlock()
				if r.Status == http.StatusOK {
					won = append(won, r.Text("access_token"))
				} else if r.Status != http.StatusBadRequest || r.Text("error") != oauth.InvalidGrant {
					t.Errorf("got %d %s", r.Status, r.Body)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d requests got tokens", len(won))
		}
		a.WantInvalid(won[0], "after the reuse")
	})
}

// TestCodesAndTokensAreBoundToTheirClient also checks that another client voids nothing with them.
func TestCodesAndTokensAreBoundToTheirClient(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a, other := f.NewApp(providertest.Confidential), f.NewApp(providertest.Confidential)
		code := a.Code()
		other.Redeem(code).WantRefused(oauth.InvalidGrant)
		f.NewApp(providertest.Public).Redeem(code).WantRefused(oauth.InvalidGrant)
		tokens := a.Redeem(code).Want(http.StatusOK).JSON()
		other.Redeem(code).WantRefused(oauth.InvalidGrant) // its reuse revokes nothing either
		access, refresh := tokens["access_token"].(string), tokens["refresh_token"].(string)
		other.Refresh(refresh).WantRefused(oauth.InvalidGrant)
		if other.Active(access) || other.Active(refresh) {
			t.Error("another client can introspect the tokens")
		}
		other.Post("/revoke", "token", access).Want(http.StatusOK)
		other.Post("/revoke", "token", refresh).Want(http.StatusOK)
		if !a.Active(access) || !a.Active(refresh) {
			t.Error("another client revoked the tokens")
		}
		a.Refresh(refresh).Want(http.StatusOK)
		f.Clock.Add(2 * grant.ReuseGrace)
		other.Refresh(refresh).WantRefused(oauth.InvalidGrant) // used long ago
		if !a.Active(access) {
			t.Error("another client revoked the grant with a refresh token that was used")
		}
		mixed := a.WithSecret(other.Secret)
		mixed.Post("/oauth/token", "grant_type", "client_credentials").
			WantError(http.StatusUnauthorized, oauth.InvalidClient)
	})
}
