package installation

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// RelyingParty is a relying party that uses golang.org/x/oauth2 and coreos/go-oidc.
type RelyingParty struct {
	Steward  *Steward
	Provider *oidc.Provider
	Config   oauth2.Config
}

// NewRelyingParty returns a client's relying party, which has read the provider's metadata.
func (s *Steward) NewRelyingParty(a Application, scopes ...string) *RelyingParty {
	s.T.Helper()
	p, err := oidc.NewProvider(s.T.Context(), s.URL)
	s.Must(err)
	return &RelyingParty{Steward: s, Provider: p, Config: oauth2.Config{
		ClientID: a.ID, ClientSecret: a.Secret, Endpoint: p.Endpoint(), RedirectURL: RedirectURI, Scopes: scopes,
	}}
}

// SignIn signs a user in, and returns the tokens and the ID token's claims.
func (p *RelyingParty) SignIn(b *Browser) (*oauth2.Token, *oidc.IDToken) {
	p.Steward.T.Helper()
	verifier := oauth2.GenerateVerifier()
	got := b.Authorize(p.Config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier), oidc.Nonce("nonce")))
	if got.Get("state") != "state" || got.Get("iss") != p.Steward.URL {
		p.Steward.T.Fatalf("got %v", got)
	}
	token, err := p.Config.Exchange(p.Steward.T.Context(), got.Get("code"), oauth2.VerifierOption(verifier))
	p.Steward.Must(err)
	raw, _ := token.Extra("id_token").(string)
	claims, err := p.Provider.Verifier(&oidc.Config{ClientID: p.Config.ClientID}).Verify(p.Steward.T.Context(), raw)
	p.Steward.Must(err)
	if claims.Nonce != "nonce" {
		p.Steward.T.Fatalf("got nonce %q", claims.Nonce)
	}
	return token, claims
}

// PostForm sends a form to an endpoint, authenticated as the client.
func (s *Steward) PostForm(a Application, path string, form url.Values) (int, map[string]any) {
	s.T.Helper()
	req, err := http.NewRequest("POST", s.URL+path, strings.NewReader(form.Encode()))
	s.Must(err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(a.ID, a.Secret)
	res, err := Client.Do(req)
	s.Must(err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	s.Must(err)
	var body map[string]any
	if len(text) > 0 {
		s.Must(json.Unmarshal(text, &body))
	}
	return res.StatusCode, body
}

// Active reports whether introspection says that a token is active.
func (s *Steward) Active(a Application, token string) bool {
	s.T.Helper()
	status, body := s.PostForm(a, "/introspect", url.Values{"token": {token}})
	if status != http.StatusOK {
		s.T.Fatalf("introspection: %d %v", status, body)
	}
	return body["active"] == true
}

// UserinfoStatus returns the status that a token gets at /userinfo.
func (s *Steward) UserinfoStatus(token string) int {
	s.T.Helper()
	return s.As(token).Call("GET", "/userinfo", nil).Status
}

// Refresh uses the refresh token and returns the new tokens.
func (p *RelyingParty) Refresh(token *oauth2.Token) *oauth2.Token {
	p.Steward.T.Helper()
	old := *token
	old.Expiry = time.Now().Add(-time.Hour)
	fresh, err := p.Config.TokenSource(p.Steward.T.Context(), &old).Token()
	p.Steward.Must(err)
	if fresh.RefreshToken == token.RefreshToken {
		p.Steward.T.Fatal("the refresh token was not rotated")
	}
	return fresh
}

// Tokens are a relying party's tokens for a user.
type Tokens struct {
	Application  Application
	RelyingParty *RelyingParty
	Access       string
	Refresh      string
	IDToken      string
}

// SignIn signs the first owner in at a client.
func (s *Steward) SignIn(a Application) Tokens {
	s.T.Helper()
	p := s.NewRelyingParty(a, "openid", "offline_access", "webhook:read")
	token, _ := p.SignIn(s.NewBrowser())
	idToken, _ := token.Extra("id_token").(string)
	return Tokens{a, p, token.AccessToken, token.RefreshToken, idToken}
}

// KeyID returns the id of the key that signed a token.
func (s *Steward) KeyID(token string) string {
	s.T.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
	s.Must(err)
	var head struct{ Kid string }
	s.Must(json.Unmarshal(text, &head))
	return head.Kid
}

// KeySet returns the published key set as text.
func (s *Steward) KeySet() string {
	s.T.Helper()
	return string(s.Call("GET", "/jwks", nil).Want(200).Body)
}
