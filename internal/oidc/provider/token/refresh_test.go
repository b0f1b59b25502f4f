package token_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
	paging "steward/internal/page"
)

func TestConcurrentRefreshesGetTheSameSuccessor(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		token := a.Tokens()["refresh_token"].(string)
		var mu sync.Mutex
		var wg sync.WaitGroup
		successors := map[string]int{}
		for range 16 {
			wg.Go(func() {
				r := a.Refresh(token)
				mu.Lock()
				defer mu.Unlock()
				if r.Status == http.StatusOK {
					successors[r.Text("refresh_token")]++
				} else {
					t.Errorf("got %d %s", r.Status, r.Body)
				}
			})
		}
		wg.Wait()
		if len(successors) != 1 {
			t.Fatalf("%d successors", len(successors))
		}
		for next := range successors {
			a.Refresh(next).Want(http.StatusOK)
		}
	})
}

func TestRefreshTokenReuseAfterTheGraceRevokesTheGrant(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		first := a.Tokens()["refresh_token"].(string)
		second := a.Refresh(first).Want(http.StatusOK).Text("refresh_token")
		f.Clock.Add(grant.ReuseGrace)
		if got := a.Refresh(first).Want(http.StatusOK).Text("refresh_token"); got != second {
			t.Fatal("the reuse got another successor")
		}
		newest := a.Refresh(second).Want(http.StatusOK).JSON()
		f.Userinfo(newest["access_token"].(string)).Want(http.StatusOK)
		f.Clock.Add(grant.ReuseGrace + time.Second)
		a.Refresh(first).WantRefused(oauth.InvalidGrant)
		a.Refresh(newest["refresh_token"].(string)).WantRefused(oauth.InvalidGrant)
		a.WantInvalid(newest["access_token"], "after the reuse")
	})
}

func TestRefreshNeverWidensTheScopes(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		token := a.Tokens("scope", "openid email offline_access webhook:read")["refresh_token"].(string)
		request := func(scope string) *providertest.Response {
			return a.Post("/oauth/token", "grant_type", "refresh_token", "refresh_token", token, "scope", scope)
		}
		request("openid webhook:write").WantRefused(oauth.InvalidScope)
		request("openid profile").WantRefused(oauth.InvalidScope)
		if got := request("openid email").Want(http.StatusOK).Text("scope"); got != "openid email" {
			t.Errorf("got %q", got)
		}
		if got := request("").Want(http.StatusOK).Text("scope"); got != "openid email offline_access webhook:read" {
			t.Errorf("got %q, want all scopes", got)
		}
		var patch oidc.ClientPatch
		providertest.Must(t, json.Unmarshal([]byte(`{"scopes": ["openid", "offline_access"]}`), &patch))
		_, err := f.Clients.Store.Update(f.Ctx, auth.From(f.Ctx), a.ID, paging.IfMatch{}, patch)
		providertest.Must(t, err)
		if got := request("").Want(http.StatusOK).Text("scope"); got != "openid offline_access" {
			t.Errorf("got %q after scopes of the client were removed", got)
		}
	})
}
