package provider

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/oidc"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
)

func TestCodeReuseRevokesItsTokens(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		code := a.code()
		tokens := a.redeem(code).want(http.StatusOK).json()
		f.userinfo(tokens["access_token"].(string)).want(http.StatusOK)
		a.redeem(code).wantRefused(oauth.InvalidGrant)
		a.wantInvalid(tokens["access_token"], "after the reuse")
		if a.active(tokens["access_token"].(string)) {
			t.Error("the token is active")
		}
		a.refresh(tokens["refresh_token"].(string)).wantRefused(oauth.InvalidGrant)
	})
}

func TestConcurrentRedemptionsOfACodeIssueTokensOnce(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		code := a.code()
		var mu sync.Mutex
		var wg sync.WaitGroup
		var won []string
		for range 16 {
			wg.Go(func() {
				r := a.redeem(code)
				mu.Lock()
				defer mu.Unlock()
				if r.status == http.StatusOK {
					won = append(won, r.text("access_token"))
				} else if r.status != http.StatusBadRequest || r.text("error") != oauth.InvalidGrant {
					t.Errorf("got %d %s", r.status, r.body)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d requests got tokens", len(won))
		}
		a.wantInvalid(won[0], "after the reuse")
	})
}

func TestConcurrentRefreshesGetTheSameSuccessor(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		token := a.tokens()["refresh_token"].(string)
		var mu sync.Mutex
		var wg sync.WaitGroup
		successors := map[string]int{}
		for range 16 {
			wg.Go(func() {
				r := a.refresh(token)
				mu.Lock()
				defer mu.Unlock()
				if r.status == http.StatusOK {
					successors[r.text("refresh_token")]++
				} else {
					t.Errorf("got %d %s", r.status, r.body)
				}
			})
		}
		wg.Wait()
		if len(successors) != 1 {
			t.Fatalf("%d successors", len(successors))
		}
		for next := range successors {
			a.refresh(next).want(http.StatusOK)
		}
	})
}

func TestRefreshTokenReuseAfterTheGraceRevokesTheGrant(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		first := a.tokens()["refresh_token"].(string)
		second := a.refresh(first).want(http.StatusOK).text("refresh_token")
		f.clock.add(grant.ReuseGrace)
		if got := a.refresh(first).want(http.StatusOK).text("refresh_token"); got != second {
			t.Fatal("the reuse got another successor")
		}
		newest := a.refresh(second).want(http.StatusOK).json()
		f.userinfo(newest["access_token"].(string)).want(http.StatusOK)
		f.clock.add(grant.ReuseGrace + time.Second)
		a.refresh(first).wantRefused(oauth.InvalidGrant)
		a.refresh(newest["refresh_token"].(string)).wantRefused(oauth.InvalidGrant)
		a.wantInvalid(newest["access_token"], "after the reuse")
	})
}

// TestCodesAndTokensAreBoundToTheirClient also checks that another client voids nothing with them.
func TestCodesAndTokensAreBoundToTheirClient(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a, other := f.newApp(confidential), f.newApp(confidential)
		code := a.code()
		other.redeem(code).wantRefused(oauth.InvalidGrant)
		f.newApp(public).redeem(code).wantRefused(oauth.InvalidGrant)
		tokens := a.redeem(code).want(http.StatusOK).json()
		other.redeem(code).wantRefused(oauth.InvalidGrant) // its reuse revokes nothing either
		access, refresh := tokens["access_token"].(string), tokens["refresh_token"].(string)
		other.refresh(refresh).wantRefused(oauth.InvalidGrant)
		if other.active(access) || other.active(refresh) {
			t.Error("another client can introspect the tokens")
		}
		other.post("/revoke", "token", access).want(http.StatusOK)
		other.post("/revoke", "token", refresh).want(http.StatusOK)
		if !a.active(access) || !a.active(refresh) {
			t.Error("another client revoked the tokens")
		}
		a.refresh(refresh).want(http.StatusOK)
		f.clock.add(2 * grant.ReuseGrace)
		other.refresh(refresh).wantRefused(oauth.InvalidGrant) // used long ago
		if !a.active(access) {
			t.Error("another client revoked the grant with a refresh token that was used")
		}
		mixed := &app{f: f, id: a.id, secret: other.secret}
		mixed.post("/oauth/token", "grant_type", "client_credentials").wantError(http.StatusUnauthorized, oauth.InvalidClient)
	})
}

func TestDeviceCodesAreBoundToTheirClient(t *testing.T) {
	each(t, func(_ *testing.T, f *fixture) {
		a, other := f.newApp(public), f.newApp(public)
		d := a.post("/device_authorization", "scope", "openid").want(http.StatusOK)
		poll := func(by *app) *response {
			return by.post("/oauth/token", "grant_type", oidc.DeviceCode, "device_code", d.text("device_code"))
		}
		poll(other).wantRefused(oauth.InvalidGrant)
		poll(other).wantRefused(oauth.InvalidGrant)
		poll(a).wantRefused("authorization_pending") // the polls of the other do not slow it down
		b := f.browser()
		b.submit(b.signIn(b.get(d.text("verification_uri_complete")))).want(http.StatusOK)
		f.clock.add(10 * time.Second)
		poll(other).wantRefused(oauth.InvalidGrant)
		tokens := poll(a).want(http.StatusOK)
		poll(other).wantRefused(oauth.InvalidGrant)
		f.userinfo(tokens.text("access_token")).want(http.StatusOK)
	})
}

// TestForgedRefreshTokensAreRefused changes the generation, the grant and the MAC of refresh tokens.
func TestForgedRefreshTokensAreRefused(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		first, second := a.tokens()["refresh_token"].(string), a.tokens()["refresh_token"].(string)
		one, two := strings.Split(first, "."), strings.Split(second, ".")
		for _, forged := range []string{
			one[0] + ".2." + one[2], two[0] + "." + one[1] + "." + one[2],
			one[0] + "." + one[1] + "." + strings.Repeat("A", len(one[2])), one[0] + "." + one[1] + ".",
			one[0] + ".-1." + one[2], one[0] + ".0." + one[2], "rt_", "rt_..", "rt_x.1.y", "x",
		} {
			a.refresh(forged).wantRefused(oauth.InvalidGrant)
			if a.active(forged) {
				t.Errorf("%s is active", forged)
			}
			a.post("/revoke", "token", forged).want(http.StatusOK)
		}
		a.refresh(first).want(http.StatusOK)
		a.refresh(second).want(http.StatusOK)
	})
}
