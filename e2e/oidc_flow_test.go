package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"steward/internal/porttest"
)

// relyingParty is a relying party with golang.org/x/oauth2 and coreos/go-oidc.
type relyingParty struct {
	s        *steward
	provider *oidc.Provider
	config   oauth2.Config
}

func (s *steward) relyingParty(a application, scopes ...string) *relyingParty {
	s.t.Helper()
	p, err := oidc.NewProvider(s.t.Context(), s.URL)
	s.must(err)
	return &relyingParty{s: s, provider: p, config: oauth2.Config{
		ClientID: a.id, ClientSecret: a.secret, Endpoint: p.Endpoint(), RedirectURL: redirectURI, Scopes: scopes,
	}}
}

// signIn signs a user in, and returns the tokens and the claims of the ID token.
func (p *relyingParty) signIn(b *browser) (*oauth2.Token, *oidc.IDToken) {
	p.s.t.Helper()
	verifier := oauth2.GenerateVerifier()
	got := b.authorize(p.config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier), oidc.Nonce("nonce")))
	if got.Get("state") != "state" || got.Get("iss") != p.s.URL {
		p.s.t.Fatalf("got %v", got)
	}
	token, err := p.config.Exchange(p.s.t.Context(), got.Get("code"), oauth2.VerifierOption(verifier))
	p.s.must(err)
	raw, _ := token.Extra("id_token").(string)
	claims, err := p.provider.Verifier(&oidc.Config{ClientID: p.config.ClientID}).Verify(p.s.t.Context(), raw)
	p.s.must(err)
	if claims.Nonce != "nonce" {
		p.s.t.Fatalf("got nonce %q", claims.Nonce)
	}
	return token, claims
}

// post sends a form to an endpoint, authenticated as the client.
func (s *steward) post(a application, path string, form url.Values) (int, object) {
	s.t.Helper()
	req, err := http.NewRequest("POST", s.URL+path, strings.NewReader(form.Encode()))
	s.must(err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(a.id, a.secret)
	res, err := client.Do(req)
	s.must(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	s.must(err)
	var body object
	if len(text) > 0 {
		s.must(json.Unmarshal(text, &body))
	}
	return res.StatusCode, body
}

// active reports whether introspection says that a token is active.
func (s *steward) active(a application, token string) bool {
	s.t.Helper()
	status, body := s.post(a, "/introspect", url.Values{"token": {token}})
	if status != http.StatusOK {
		s.t.Fatalf("introspection: %d %v", status, body)
	}
	return body["active"] == true
}

func (s *steward) userinfoStatus(token string) int {
	s.t.Helper()
	return s.as(token).call("GET", "/userinfo", nil).status
}

// TestSignInIsCountedAndRevoked signs a user in at a relying party. The management API lists the
// consent, counts the activity, and revokes both user and client.
func TestSignInIsCountedAndRevoked(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		a := s.application(object{
			"grant_types": everyGrant, "scopes": []string{"openid", "profile", "email", "offline_access", "account:read", "webhook:read"},
		})
		b, p := s.browser(), s.relyingParty(a, "openid", "email", "offline_access", "account:read", "webhook:read")
		token, claims := p.signIn(b)
		info, err := p.provider.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
		s.must(err)
		if info.Email != adminEmail || info.Subject != claims.Subject {
			t.Fatalf("got %+v", info)
		}
		refreshed := p.refresh(token)
		if !s.active(a, refreshed.AccessToken) {
			t.Error("the refreshed token is not active")
		}

		// On the management API the access token has the rights of its scopes and of the user's role.
		s.as(refreshed.AccessToken).call("GET", "/cli/auth/user", nil).want(200)
		s.as(refreshed.AccessToken).call("GET", "/webhook/list", nil).want(200)
		s.as(refreshed.AccessToken).call("POST", "/webhook/create", object{"name": "x"}).want(403)
		s.as(refreshed.AccessToken).call("GET", "/oidc/clients", nil).want(403)

		var users []struct {
			UserID string `json:"user_id"`
		}
		s.call("GET", "/oidc/clients/"+a.id+"/users", nil).want(200).decode(&users)
		if len(users) != 1 || users[0].UserID != claims.Subject {
			t.Fatalf("got %+v", users)
		}
		// Token, userinfo, refresh and introspection are counted within a second.
		within(t, 3*time.Second, "the activity to be counted", func() bool { return s.accesses(a) == 4 })
		got := s.call("GET", "/oidc/clients/"+a.id, nil).want(200)
		if got.get("user_count") != 1.0 || got.get("last_activity") == nil {
			t.Errorf("got %s", got.body)
		}
		s.call("DELETE", "/oidc/clients/"+a.id+"/users/"+claims.Subject, nil).want(200)
		if got := s.userinfoStatus(refreshed.AccessToken); got != http.StatusUnauthorized {
			t.Errorf("userinfo after the user was revoked: %d", got)
		}
		s.as(refreshed.AccessToken).call("GET", "/cli/auth/user", nil).want(401)
		if s.active(a, refreshed.AccessToken) {
			t.Error("the token is active after the user was revoked")
		}
		refreshed.Expiry = time.Now().Add(-time.Hour)
		if _, err := p.config.TokenSource(t.Context(), refreshed).Token(); err == nil {
			t.Error("the refresh token works after the user was revoked")
		}

		token, _ = p.signIn(b)
		s.call("DELETE", "/oidc/clients/"+a.id, nil).want(200)
		if got := s.userinfoStatus(token.AccessToken); got != http.StatusUnauthorized {
			t.Errorf("userinfo after the client was deleted: %d", got)
		}
		s.as(token.AccessToken).call("GET", "/cli/auth/user", nil).want(401)
	})
}

// accesses returns the number of accesses of a client that the management API has counted.
func (s *steward) accesses(a application) float64 {
	s.t.Helper()
	var days []struct {
		Total float64 `json:"total_access"`
	}
	s.call("GET", "/oidc/clients/"+a.id+"/activity?days=2", nil).want(200).decode(&days)
	total := 0.0
	for _, d := range days {
		total += d.Total
	}
	return total
}

// refresh uses the refresh token and returns the new tokens.
func (p *relyingParty) refresh(token *oauth2.Token) *oauth2.Token {
	p.s.t.Helper()
	old := *token
	old.Expiry = time.Now().Add(-time.Hour)
	fresh, err := p.config.TokenSource(p.s.t.Context(), &old).Token()
	p.s.must(err)
	if fresh.RefreshToken == token.RefreshToken {
		p.s.t.Fatal("the refresh token was not rotated")
	}
	return fresh
}

// TestSignInRefreshAndLogout uses the provider as golang.org/x/oauth2 and coreos/go-oidc do: discovery,
// code with PKCE and nonce, userinfo, refresh with a new ID token, and logout with that ID token.
func TestSignInRefreshAndLogout(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		const bye = "https://harbour.example.com/bye"
		a := s.application(object{"post_logout_redirect_uris": []string{bye}})
		b, p := s.browser(), s.relyingParty(a, "openid", "email", "offline_access")
		token, first := p.signIn(b)
		info, err := p.provider.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
		s.must(err)
		if info.Email != adminEmail || info.Subject != first.Subject {
			t.Errorf("userinfo has %+v, the ID token the subject %s", info, first.Subject)
		}

		refreshed := p.refresh(token)
		raw, _ := refreshed.Extra("id_token").(string)
		second, err := p.provider.Verifier(&oidc.Config{ClientID: a.id}).Verify(t.Context(), raw)
		s.must(err)
		if second.Subject != first.Subject || second.Issuer != first.Issuer {
			t.Errorf("the ID token of the refresh is of %s, the first one of %s", second.Subject, first.Subject)
		}

		var metadata struct {
			EndSession string `json:"end_session_endpoint"`
		}
		s.must(p.provider.Claims(&metadata))
		end := url.Values{"id_token_hint": {raw}, "post_logout_redirect_uri": {bye}, "state": {"left"}}
		if out := b.visit(metadata.EndSession + "?" + end.Encode()); out.location != bye+"?state=left" {
			t.Errorf("logout leads to %q: %s", out.location, out.body)
		}
		silent := b.visit(p.config.AuthCodeURL("s", oauth2.SetAuthURLParam("prompt", "none")))
		if !strings.Contains(silent.location, "error=login_required") {
			t.Errorf("the session has not ended: redirect to %s", silent.location)
		}
		p.signIn(b)
	})
}

func TestSignInSurvivesKill(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		s.stop()
		s.Args = append(s.Args, "--listen", porttest.Address(porttest.Free(t)))
		s.start()
		a := s.application(object{})
		b, p := s.browser(), s.relyingParty(a, "openid", "offline_access")
		token, _ := p.signIn(b)
		s.kill()
		s.start()
		if got := s.userinfoStatus(token.AccessToken); got != http.StatusOK {
			t.Errorf("userinfo: %d", got)
		}
		p.refresh(token)
		again := b.visit(p.config.AuthCodeURL("s", oauth2.SetAuthURLParam("prompt", "none")))
		if !strings.Contains(again.location, "code=") {
			t.Errorf("the session is gone: %s", again.location)
		}
	})
}
