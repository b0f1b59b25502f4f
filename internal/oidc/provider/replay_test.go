package provider

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A code that comes twice gives nothing the second time, and what it gave the first time is void.
func TestCodeReplayRevokesWhatTheCodeGave(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		code := a.code()
		tokens := a.redeem(code).want(http.StatusOK).json()
		h.userinfo(tokens["access_token"].(string)).want(http.StatusOK)
		a.redeem(code).fault(http.StatusBadRequest, invalidGrant)
		a.dead(tokens["access_token"], "after the replay")
		if a.active(tokens["access_token"].(string)) {
			t.Error("introspection calls it active")
		}
		a.refresh(tokens["refresh_token"].(string)).fault(http.StatusBadRequest, invalidGrant)
	})
}

// Of sixteen who redeem one code at the same time exactly one gets tokens, which are void as after any replay.
func TestSixteenConcurrentRedemptions(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
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
				} else if r.status != http.StatusBadRequest || r.text("error") != invalidGrant {
					t.Errorf("a loser got %d %s", r.status, r.body)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d got tokens", len(won))
		}
		a.dead(won[0], "after the replays")
	})
}

// Sixteen who refresh with one token at the same time get the same successor, and the family lives on.
func TestSixteenConcurrentRefreshes(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
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

// A refresh token that comes again within the grace time gets the same successor; later it voids the whole family, the newest tokens too.
func TestRefreshReuseAfterTheGraceTimeRevokesTheFamily(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		first := a.tokens()["refresh_token"].(string)
		second := a.refresh(first).want(http.StatusOK).text("refresh_token")
		h.clock.add(graceTime)
		if got := a.refresh(first).want(http.StatusOK).text("refresh_token"); got != second {
			t.Fatal("the repeat got another successor")
		}
		newest := a.refresh(second).want(http.StatusOK).json()
		h.userinfo(newest["access_token"].(string)).want(http.StatusOK)
		h.clock.add(graceTime + time.Second)
		a.refresh(first).fault(http.StatusBadRequest, invalidGrant)
		a.refresh(newest["refresh_token"].(string)).fault(http.StatusBadRequest, invalidGrant)
		a.dead(newest["access_token"], "after the reuse")
	})
}

// Nothing of one client serves another: codes, refresh tokens, introspection, revocation.
func TestMixedUpClients(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a, other := h.newApp(confidential), h.newApp(confidential)
		other.redeem(a.code()).fault(http.StatusBadRequest, invalidGrant)
		tokens := a.tokens()
		access, refresh := tokens["access_token"].(string), tokens["refresh_token"].(string)
		other.refresh(refresh).fault(http.StatusBadRequest, invalidGrant)
		if other.active(access) || other.active(refresh) {
			t.Error("another client is told about the tokens")
		}
		other.post("/revoke", "token", access).want(http.StatusOK)
		other.post("/revoke", "token", refresh).want(http.StatusOK)
		if !a.active(access) || !a.active(refresh) {
			t.Error("another client revoked the tokens")
		}
		a.refresh(refresh).want(http.StatusOK)
		mixed := &app{h: h, id: a.id, secret: other.secret}
		mixed.post("/oauth/token", "grant_type", "client_credentials").fault(http.StatusUnauthorized, invalidClient)
	})
}

// A refresh token cannot be made from another one: not for the next generation, not for another grant, not with a changed proof.
func TestForgedRefreshTokens(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		first, second := a.tokens()["refresh_token"].(string), a.tokens()["refresh_token"].(string)
		one, two := strings.Split(first, "."), strings.Split(second, ".")
		for _, forged := range []string{
			one[0] + ".2." + one[2], two[0] + "." + one[1] + "." + one[2], one[0] + "." + one[1] + "." + strings.Repeat("A", len(one[2])),
			one[0] + "." + one[1] + ".", one[0] + ".-1." + one[2], one[0] + ".0." + one[2], "rt_", "rt_..", "rt_x.1.y", "x",
		} {
			a.refresh(forged).fault(http.StatusBadRequest, invalidGrant)
			if a.active(forged) {
				t.Errorf("%s is active", forged)
			}
			a.post("/revoke", "token", forged).want(http.StatusOK)
		}
		a.refresh(first).want(http.StatusOK)
		a.refresh(second).want(http.StatusOK)
	})
}
