package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

// TestSignInIsCountedAndRevoked signs a user in at a relying party. The management API lists the
// consent, counts the activity, and revokes both user and client.
func TestSignInIsCountedAndRevoked(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		a := s.NewApplication(object{
			"grant_types": installation.EveryGrant, "scopes": []string{"openid", "profile", "email", "offline_access", "account:read", "webhook:read"},
		})
		b, p := s.NewBrowser(), s.NewRelyingParty(a, "openid", "email", "offline_access", "account:read", "webhook:read")
		token, claims := p.SignIn(b)
		info, err := p.Provider.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
		s.Must(err)
		if info.Email != installation.AdminEmail || info.Subject != claims.Subject {
			t.Fatalf("got %+v", info)
		}
		refreshed := p.Refresh(token)
		if !s.Active(a, refreshed.AccessToken) {
			t.Error("the refreshed token is not active")
		}

		// On the management API the access token has the rights of its scopes and of the user's role.
		s.As(refreshed.AccessToken).Call("GET", "/cli/auth/user", nil).Want(200)
		s.As(refreshed.AccessToken).Call("GET", "/webhook/list", nil).Want(200)
		s.As(refreshed.AccessToken).Call("POST", "/webhook/create", object{"name": "x"}).Want(403)
		s.As(refreshed.AccessToken).Call("GET", "/oidc/clients", nil).Want(403)

		var users []struct {
			UserID string `json:"user_id"`
		}
		s.Call("GET", "/oidc/clients/"+a.ID+"/users", nil).Want(200).Decode(&users)
		if len(users) != 1 || users[0].UserID != claims.Subject {
			t.Fatalf("got %+v", users)
		}
		// Token, userinfo, refresh and introspection are counted within a second.
		waittest.Within(t, 3*time.Second, "the activity to be counted", func() bool { return countAccesses(s, a) == 4 })
		got := s.Call("GET", "/oidc/clients/"+a.ID, nil).Want(200)
		if got.Get("user_count") != 1.0 || got.Get("last_activity") == nil {
			t.Errorf("got %s", got.Body)
		}
		s.Call("DELETE", "/oidc/clients/"+a.ID+"/users/"+claims.Subject, nil).Want(200)
		if got := s.UserinfoStatus(refreshed.AccessToken); got != http.StatusUnauthorized {
			t.Errorf("userinfo after the user was revoked: %d", got)
		}
		s.As(refreshed.AccessToken).Call("GET", "/cli/auth/user", nil).Want(401)
		if s.Active(a, refreshed.AccessToken) {
			t.Error("the token is active after the user was revoked")
		}
		refreshed.Expiry = time.Now().Add(-time.Hour)
		if _, err := p.Config.TokenSource(t.Context(), refreshed).Token(); err == nil {
			t.Error("the refresh token works after the user was revoked")
		}

		token, _ = p.SignIn(b)
		s.Call("DELETE", "/oidc/clients/"+a.ID, nil).Want(200)
		if got := s.UserinfoStatus(token.AccessToken); got != http.StatusUnauthorized {
			t.Errorf("userinfo after the client was deleted: %d", got)
		}
		s.As(token.AccessToken).Call("GET", "/cli/auth/user", nil).Want(401)
	})
}

// countAccesses returns the number of accesses of a client that the management API has counted.
func countAccesses(s *installation.Steward, a installation.Application) float64 {
	s.T.Helper()
	var days []struct {
		Total float64 `json:"total_access"`
	}
	s.Call("GET", "/oidc/clients/"+a.ID+"/activity?days=2", nil).Want(200).Decode(&days)
	total := 0.0
	for _, d := range days {
		total += d.Total
	}
	return total
}

// TestSignInRefreshAndLogout uses the provider as golang.org/x/oauth2 and coreos/go-oidc do: discovery,
// code with PKCE and nonce, userinfo, refresh with a new ID token, and logout with that ID token.
func TestSignInRefreshAndLogout(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		const bye = "https://harbour.example.com/bye"
		a := s.NewApplication(object{"post_logout_redirect_uris": []string{bye}})
		b, p := s.NewBrowser(), s.NewRelyingParty(a, "openid", "email", "offline_access")
		token, first := p.SignIn(b)
		info, err := p.Provider.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
		s.Must(err)
		if info.Email != installation.AdminEmail || info.Subject != first.Subject {
			t.Errorf("userinfo has %+v, the ID token the subject %s", info, first.Subject)
		}

		refreshed := p.Refresh(token)
		raw, _ := refreshed.Extra("id_token").(string)
		second, err := p.Provider.Verifier(&oidc.Config{ClientID: a.ID}).Verify(t.Context(), raw)
		s.Must(err)
		if second.Subject != first.Subject || second.Issuer != first.Issuer {
			t.Errorf("the ID token of the refresh is of %s, the first one of %s", second.Subject, first.Subject)
		}

		var metadata struct {
			EndSession string `json:"end_session_endpoint"`
		}
		s.Must(p.Provider.Claims(&metadata))
		end := url.Values{"id_token_hint": {raw}, "post_logout_redirect_uri": {bye}, "state": {"left"}}
		if out := b.Visit(metadata.EndSession + "?" + end.Encode()); out.Location != bye+"?state=left" {
			t.Errorf("logout leads to %q: %s", out.Location, out.Body)
		}
		silent := b.Visit(p.Config.AuthCodeURL("s", oauth2.SetAuthURLParam("prompt", "none")))
		if !strings.Contains(silent.Location, "error=login_required") {
			t.Errorf("the session has not ended: redirect to %s", silent.Location)
		}
		p.SignIn(b)
	})
}
