package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

// balancedReplica starts a replica with the base URL of the first one, as behind a load balancer. Its
// URL is that of its own listener.
func (s *steward) balancedReplica() *steward {
	s.t.Helper()
	r := &steward{Steward: s.Replica(), t: s.t, key: s.key}
	r.Args = []string{"--base-url", s.URL}
	r.start()
	r.URL = "http://" + r.addresses().Listen["api"]
	if r.URL == s.URL {
		s.t.Fatal("the replica has no address of its own")
	}
	return r
}

// kidOf returns the id of the key that signed a token.
func (s *steward) kidOf(token string) string {
	s.t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[0])
	s.must(err)
	var head struct{ Kid string }
	s.must(json.Unmarshal(text, &head))
	return head.Kid
}

// keySet returns the published key set as text.
func (s *steward) keySet() string {
	s.t.Helper()
	return string(s.call("GET", "/jwks", nil).want(200).body)
}

// redeemAt signs a user in at one replica and redeems the code at another.
func (p *relyingParty) redeemAt(other *steward, a application) object {
	p.s.t.Helper()
	verifier := oauth2.GenerateVerifier()
	code := p.s.browser().authorize(p.config.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier))).Get("code")
	status, tokens := other.post(a, "/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirectURI}, "code_verifier": {verifier},
	})
	if status != http.StatusOK {
		p.s.t.Fatalf("the other replica responds with %d %v", status, tokens)
	}
	return tokens
}

// TestKeyRotationOnOneReplicaReachesTheOther checks that all tokens stay valid, and that both replicas
// sign only with keys that were published before the rotation, so that relying parties may cache the
// key set.
func TestKeyRotationOnOneReplicaReachesTheOther(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, "postgres")
	other := s.balancedReplica()
	a := s.application(object{"scopes": []string{"openid", "offline_access", "webhook:read"}})
	p := s.relyingParty(a, "openid", "offline_access")
	before := p.redeemAt(other, a)
	sets := []string{s.keySet(), other.keySet()}
	if got := s.call("POST", "/oidc/keys/rotate", nil).want(200); got.get("rotated") != true {
		t.Fatalf("got %s", got.body)
	}
	here, _ := p.signIn(s.browser())
	old := s.kidOf(before["access_token"].(string))
	rotated := func(tokens object) bool {
		for _, name := range []string{"access_token", "id_token"} {
			for _, set := range sets {
				if kid := s.kidOf(tokens[name].(string)); !strings.Contains(set, kid) {
					t.Errorf("the %s was signed with %s, which was not published", name, kid)
				}
			}
		}
		return s.kidOf(tokens["access_token"].(string)) != old
	}
	idToken, _ := here.Extra("id_token").(string)
	if !rotated(object{"access_token": here.AccessToken, "id_token": idToken}) {
		t.Error("the replica that rotated signs with the old key")
	}
	refresh := before["refresh_token"].(string)
	within(t, time.Second, "the other replica to sign with the new key", func() bool {
		status, tokens := other.post(a, "/oauth/token", url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {refresh},
		})
		if status != http.StatusOK {
			t.Fatalf("refresh: %d %v", status, tokens)
		}
		refresh = tokens["refresh_token"].(string)
		return rotated(tokens)
	})
	for _, at := range []*steward{s, other} {
		for _, token := range []string{before["access_token"].(string), here.AccessToken} {
			if got := at.userinfoStatus(token); got != http.StatusOK {
				t.Errorf("userinfo after the rotation: %d", got)
			}
		}
	}
}

// TestRevocationOnOneReplicaReachesTheOther checks userinfo, introspection, refresh and the management
// API.
func TestRevocationOnOneReplicaReachesTheOther(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, "postgres")
	other := s.balancedReplica()
	me := s.call("GET", "/cli/auth/user", nil).want(200).text("id")
	for _, how := range []struct {
		name   string
		revoke func(a application, tokens object)
	}{
		{"revoked by its client", func(a application, tokens object) {
			s.post(a, "/revoke", url.Values{"token": {tokens["refresh_token"].(string)}})
		}},
		{"user revoked", func(a application, _ object) {
			s.call("DELETE", "/oidc/clients/"+a.id+"/users/"+me, nil).want(200)
		}},
		{"all users revoked", func(a application, _ object) {
			s.call("DELETE", "/oidc/clients/"+a.id+"/users", nil).want(200)
		}},
		{"own consent revoked", func(a application, _ object) {
			s.call("DELETE", "/oidc/user/consent/"+a.id, nil).want(200)
		}},
		{"client deleted", func(a application, _ object) {
			s.call("DELETE", "/oidc/clients/"+a.id, nil).want(200)
		}},
	} {
		t.Run(how.name, func(t *testing.T) {
			a := s.application(object{"scopes": []string{"openid", "offline_access", "account:read"}})
			tokens := s.relyingParty(a, "openid", "offline_access", "account:read").redeemAt(other, a)
			access := tokens["access_token"].(string)
			uses := map[string]func() bool{
				"userinfo": func() bool { return other.userinfoStatus(access) == http.StatusOK },
				"management API": func() bool {
					return other.as(access).call("GET", "/cli/auth/user", nil).status == http.StatusOK
				},
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
					t.Fatalf("%s does not work before the revocation", name)
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
