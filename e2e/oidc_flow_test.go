package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	rp "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// party is a relying party on golang.org/x/oauth2 and coreos/go-oidc.
type party struct {
	s        *steward
	provider *rp.Provider
	config   oauth2.Config
}

func (s *steward) party(a application, scopes ...string) *party {
	s.t.Helper()
	p, err := rp.NewProvider(s.t.Context(), s.URL)
	s.must(err)
	return &party{s: s, provider: p, config: oauth2.Config{
		ClientID: a.id, ClientSecret: a.secret, Endpoint: p.Endpoint(), RedirectURL: returnTo, Scopes: scopes,
	}}
}

// signIn has a visitor sign in, and gives the tokens with the claims of the ID token.
func (p *party) signIn(v *visitor) (*oauth2.Token, *rp.IDToken) {
	p.s.t.Helper()
	verifier := oauth2.GenerateVerifier()
	answer := v.back(p.config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier), rp.Nonce("nonce")))
	if answer.Get("state") != "state" || answer.Get("iss") != p.s.URL {
		p.s.t.Fatalf("got %v", answer)
	}
	token, err := p.config.Exchange(p.s.t.Context(), answer.Get("code"), oauth2.VerifierOption(verifier))
	p.s.must(err)
	raw, _ := token.Extra("id_token").(string)
	claims, err := p.provider.Verifier(&rp.Config{ClientID: p.config.ClientID}).Verify(p.s.t.Context(), raw)
	p.s.must(err)
	if claims.Nonce != "nonce" {
		p.s.t.Fatalf("got nonce %q", claims.Nonce)
	}
	return token, claims
}

// post sends a form to an endpoint, authenticated as the application.
func (s *steward) post(a application, path string, form url.Values) (int, map[string]any) {
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
	var body map[string]any
	if len(text) > 0 {
		s.must(json.Unmarshal(text, &body))
	}
	return res.StatusCode, body
}

func (s *steward) active(a application, token string) bool {
	s.t.Helper()
	status, body := s.post(a, "/introspect", url.Values{"token": {token}})
	if status != http.StatusOK {
		s.t.Fatalf("introspection got %d %v", status, body)
	}
	return body["active"] == true
}

func (s *steward) userinfoStatus(token string) int {
	s.t.Helper()
	return s.as(token).call("GET", "/userinfo", nil).status
}

// A user signs in to a relying party in Go; the management API sees the consent, counts the activity, and ends it.
func TestSignInAndRevoke(t *testing.T) {
	eachSignIn(t, func(t *testing.T, s *steward) {
		a := s.application(map[string]any{
			"grant_types": everyGrant, "scopes": []string{"openid", "profile", "email", "offline_access", "webhook:read"},
		})
		v, p := s.visitor(), s.party(a, "openid", "email", "offline_access", "webhook:read")
		token, claims := p.signIn(v)
		info, err := p.provider.UserInfo(t.Context(), oauth2.StaticTokenSource(token))
		s.must(err)
		if info.Email != adminEmail || info.Subject != claims.Subject {
			t.Fatalf("got %+v", info)
		}
		refreshed := p.refresh(token)
		if !s.active(a, refreshed.AccessToken) {
			t.Error("the refreshed token is not active")
		}

		// The access token opens the management API as far as its scopes and the user's role go.
		s.as(refreshed.AccessToken).call("GET", "/cli/auth/user", nil).want(200)
		s.as(refreshed.AccessToken).call("GET", "/webhook/list", nil).want(200)
		s.as(refreshed.AccessToken).call("POST", "/webhook/create", map[string]any{"name": "x"}).want(403)
		s.as(refreshed.AccessToken).call("GET", "/oidc/clients", nil).want(403)

		var users []struct {
			UserID string `json:"user_id"`
		}
		s.call("GET", "/oidc/clients/"+a.id+"/users", nil).want(200).into(&users)
		if len(users) != 1 || users[0].UserID != claims.Subject {
			t.Fatalf("got %+v", users)
		}
		// A token by code, userinfo, a refresh, an introspection: they are counted within a second.
		within(t, 3*time.Second, "the activity to be counted", func() bool { return s.accesses(a) == 4 })
		if got := s.call("GET", "/oidc/clients/"+a.id, nil).want(200); got.get("user_count") != 1.0 || got.get("last_activity") == nil {
			t.Errorf("got %s", got.body)
		}
		s.call("DELETE", "/oidc/clients/"+a.id+"/users/"+claims.Subject, nil).want(200)
		if got := s.userinfoStatus(refreshed.AccessToken); got != http.StatusUnauthorized {
			t.Errorf("userinfo gives %d after the user was revoked", got)
		}
		s.as(refreshed.AccessToken).call("GET", "/cli/auth/user", nil).want(401)
		if s.active(a, refreshed.AccessToken) {
			t.Error("introspection calls it active after the user was revoked")
		}
		refreshed.Expiry = time.Now().Add(-time.Hour)
		if _, err := p.config.TokenSource(t.Context(), refreshed).Token(); err == nil {
			t.Error("the refresh token works after the user was revoked")
		}

		token, _ = p.signIn(v)
		s.call("DELETE", "/oidc/clients/"+a.id, nil).want(200)
		if got := s.userinfoStatus(token.AccessToken); got != http.StatusUnauthorized {
			t.Errorf("userinfo gives %d after the client was deleted", got)
		}
		s.as(token.AccessToken).call("GET", "/cli/auth/user", nil).want(401)
	})
}

// accesses is what the management API has counted of an application today.
func (s *steward) accesses(a application) float64 {
	s.t.Helper()
	var days []struct {
		Total float64 `json:"total_access"`
	}
	s.call("GET", "/oidc/clients/"+a.id+"/activity?days=2", nil).want(200).into(&days)
	total := 0.0
	for _, d := range days {
		total += d.Total
	}
	return total
}

func (p *party) refresh(token *oauth2.Token) *oauth2.Token {
	p.s.t.Helper()
	old := *token
	old.Expiry = time.Now().Add(-time.Hour)
	fresh, err := p.config.TokenSource(p.s.t.Context(), &old).Token()
	p.s.must(err)
	if fresh.RefreshToken == token.RefreshToken {
		p.s.t.Fatal("the refresh token was not turned")
	}
	return fresh
}

// Sessions, codes and tokens outlive a power cut.
func TestSignInSurvivesAKill(t *testing.T) {
	eachSignIn(t, func(t *testing.T, s *steward) {
		a := s.application(map[string]any{})
		v, p := s.visitor(), s.party(a, "openid", "offline_access")
		token, _ := p.signIn(v)
		port := strings.TrimPrefix(s.URL, "http://")
		s.kill()
		s.Args = append(s.Args, "--listen", port)
		s.run()
		if got := s.userinfoStatus(token.AccessToken); got != http.StatusOK {
			t.Errorf("userinfo gives %d", got)
		}
		p.refresh(token)
		if at := v.visit(p.config.AuthCodeURL("s", oauth2.SetAuthURLParam("prompt", "none"))); !strings.Contains(at.moved, "code=") {
			t.Errorf("the session is gone: %s", at.moved)
		}
	})
}
