package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"steward/internal/app"
)

// sameNameReplica is replica, known to its users by the first one's address, as behind a load balancer; URL is its own.
func (s *steward) sameNameReplica() *steward {
	s.t.Helper()
	r := &steward{Steward: s.Replica(), t: s.t, key: s.key}
	r.Args = []string{"--base-url", s.URL}
	r.run()
	text, err := os.ReadFile(filepath.Join(r.Dir, "steward.json"))
	s.must(err)
	var addresses app.Addresses
	s.must(json.Unmarshal(text, &addresses))
	r.URL = "http://" + addresses.Listen["api"]
	if r.URL == s.URL {
		s.t.Fatal("the replica has no address of its own")
	}
	return r
}

// kidOf reads which key signed a token.
func (s *steward) kidOf(token string) string {
	s.t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
	s.must(err)
	var head struct{ Kid string }
	s.must(json.Unmarshal(text, &head))
	return head.Kid
}

// keySet is the published key set as text, as a relying party that asks once would keep it.
func (s *steward) keySet() string {
	s.t.Helper()
	return string(s.call("GET", "/jwks", nil).want(200).body)
}

// redeemAt signs a visitor in at one replica and redeems the code at another.
func (p *party) redeemAt(other *steward, a application) map[string]any {
	p.s.t.Helper()
	verifier := oauth2.GenerateVerifier()
	code := p.s.visitor().back(p.config.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier))).Get("code")
	status, tokens := other.post(a, "/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {returnTo}, "code_verifier": {verifier},
	})
	if status != http.StatusOK {
		p.s.t.Fatalf("the other replica gives %d %v", status, tokens)
	}
	return tokens
}

// Two replicas serve one sign-in, and a rotation of the keys on one of them leaves every token valid. What either signs before and after is
// in the sets that both had published before: a relying party that keeps a set meets no key that it does not know.
func TestTwoReplicasRotate(t *testing.T) {
	s := beginSignIn(t, "postgres")
	other := s.sameNameReplica()
	a := s.application(map[string]any{"scopes": []string{"openid", "offline_access", "webhook:read"}})
	p := s.party(a, "openid", "offline_access")
	before := p.redeemAt(other, a)
	sets := []string{s.keySet(), other.keySet()}
	if got := s.call("POST", "/oidc/keys/rotate", nil).want(200); got.get("rotated") != true {
		t.Fatalf("got %s", got.body)
	}
	here, _ := p.signIn(s.visitor())
	known := map[string]bool{s.kidOf(before["access_token"].(string)): true}
	rotated := func(tokens map[string]any) bool {
		for _, name := range []string{"access_token", "id_token"} {
			for _, set := range sets {
				if kid := s.kidOf(tokens[name].(string)); !strings.Contains(set, kid) {
					t.Errorf("%s names %s, which nobody could know", name, kid)
				}
			}
		}
		return !known[s.kidOf(tokens["access_token"].(string))]
	}
	if idToken, _ := here.Extra("id_token").(string); !rotated(map[string]any{"access_token": here.AccessToken, "id_token": idToken}) {
		t.Error("the new key does not sign where it was rotated")
	}
	within(t, time.Second, "the other replica to sign with the new key", func() bool {
		_, tokens := other.post(a, "/oauth/token", url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {before["refresh_token"].(string)},
		})
		return rotated(tokens)
	})
	for _, at := range []*steward{s, other} {
		for _, token := range []string{before["access_token"].(string), here.AccessToken} {
			if got := at.userinfoStatus(token); got != http.StatusOK {
				t.Errorf("userinfo gives %d after the rotation", got)
			}
		}
	}
}

// What one replica revokes, the other refuses within a second: userinfo, introspection, refresh, and the management API's own check.
func TestTwoReplicasRevoke(t *testing.T) {
	s := beginSignIn(t, "postgres")
	other := s.sameNameReplica()
	me := s.call("GET", "/cli/auth/user", nil).want(200).text("id")
	for _, how := range []struct {
		name   string
		revoke func(a application, tokens map[string]any)
	}{
		{"revoked by its client", func(a application, tokens map[string]any) {
			s.post(a, "/revoke", url.Values{"token": {tokens["refresh_token"].(string)}})
		}},
		{"user revoked", func(a application, _ map[string]any) {
			s.call("DELETE", "/oidc/clients/"+a.id+"/users/"+me, nil).want(200)
		}},
		{"all users revoked", func(a application, _ map[string]any) { s.call("DELETE", "/oidc/clients/"+a.id+"/users", nil).want(200) }},
		{"own consent revoked", func(a application, _ map[string]any) { s.call("DELETE", "/oidc/user/consent/"+a.id, nil).want(200) }},
		{"client deleted", func(a application, _ map[string]any) { s.call("DELETE", "/oidc/clients/"+a.id, nil).want(200) }},
	} {
		t.Run(how.name, func(t *testing.T) {
			a := s.application(map[string]any{})
			tokens := s.party(a, "openid", "offline_access").redeemAt(other, a)
			access := tokens["access_token"].(string)
			uses := map[string]func() bool{
				"userinfo":       func() bool { return other.userinfoStatus(access) == http.StatusOK },
				"management API": func() bool { return other.as(access).call("GET", "/cli/auth/user", nil).status == http.StatusOK },
				"introspection": func() bool {
					_, body := other.post(a, "/introspect", url.Values{"token": {access}})
					return body["active"] == true
				},
				"refresh": func() bool {
					status, _ := other.post(a, "/oauth/token", url.Values{
						"grant_type": {"refresh_token"}, "refresh_token": {tokens["refresh_token"].(string)},
					})
					return status == http.StatusOK
				},
			}
			for name, works := range uses {
				if !works() {
					t.Fatalf("%s does not work before", name)
				}
			}
			how.revoke(a, tokens)
			within(t, time.Second, "the other replica to refuse the tokens", func() bool {
				for _, works := range uses {
					if works() {
						return false
					}
				}
				return true
			})
		})
	}
}
