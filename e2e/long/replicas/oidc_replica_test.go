package replicas

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

// redeemAt signs a user in at one replica and redeems the code at another.
func redeemAt(p *installation.RelyingParty, other *installation.Steward, a installation.Application) object {
	p.Steward.T.Helper()
	verifier := oauth2.GenerateVerifier()
	code := p.Steward.NewBrowser().Authorize(p.Config.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier))).Get("code")
	status, tokens := other.PostForm(a, "/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {installation.RedirectURI}, "code_verifier": {verifier},
	})
	if status != http.StatusOK {
		p.Steward.T.Fatalf("the other replica responds with %d %v", status, tokens)
	}
	return tokens
}

// TestKeyRotationOnOneReplicaReachesTheOther checks that all tokens stay valid, and that both replicas
// sign only with keys that were published before the rotation, so that relying parties may cache the
// key set.
func TestKeyRotationOnOneReplicaReachesTheOther(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "postgres")
	other := s.BalancedReplica()
	a := s.NewApplication(object{"scopes": []string{"openid", "offline_access", "webhook:read"}})
	p := s.NewRelyingParty(a, "openid", "offline_access")
	before := redeemAt(p, other, a)
	sets := []string{s.KeySet(), other.KeySet()}
	if got := s.Call("POST", "/oidc/keys/rotate", nil).Want(200); got.Get("rotated") != true {
		t.Fatalf("got %s", got.Body)
	}
	here, _ := p.SignIn(s.NewBrowser())
	old := s.KeyID(before["access_token"].(string))
	rotated := func(tokens object) bool {
		for _, name := range []string{"access_token", "id_token"} {
			for _, set := range sets {
				if kid := s.KeyID(tokens[name].(string)); !strings.Contains(set, kid) {
					t.Errorf("the %s was signed with %s, which was not published", name, kid)
				}
			}
		}
		return s.KeyID(tokens["access_token"].(string)) != old
	}
	idToken, _ := here.Extra("id_token").(string)
	if !rotated(object{"access_token": here.AccessToken, "id_token": idToken}) {
		t.Error("the replica that rotated signs with the old key")
	}
	refresh := before["refresh_token"].(string)
	waittest.Within(t, time.Second, "the other replica to sign with the new key", func() bool {
		status, tokens := other.PostForm(a, "/oauth/token", url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {refresh},
		})
		if status != http.StatusOK {
			t.Fatalf("refresh: %d %v", status, tokens)
		}
		refresh = tokens["refresh_token"].(string)
		return rotated(tokens)
	})
	for _, at := range []*installation.Steward{s, other} {
		for _, token := range []string{before["access_token"].(string), here.AccessToken} {
			if got := at.UserinfoStatus(token); got != http.StatusOK {
				t.Errorf("userinfo after the rotation: %d", got)
			}
		}
	}
}

// TestRevocationOnOneReplicaReachesTheOther checks userinfo, introspection, refresh and the management
// API.
func TestRevocationOnOneReplicaReachesTheOther(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "postgres")
	other := s.BalancedReplica()
	me := s.Call("GET", "/cli/auth/user", nil).Want(200).Text("id")
	for _, how := range []struct {
		name   string
		revoke func(a installation.Application, tokens object)
	}{
		{"revoked by its client", func(a installation.Application, tokens object) {
			s.PostForm(a, "/revoke", url.Values{"token": {tokens["refresh_token"].(string)}})
		}},
		{"user revoked", func(a installation.Application, _ object) {
			s.Call("DELETE", "/oidc/clients/"+a.ID+"/users/"+me, nil).Want(200)
		}},
		{"all users revoked", func(a installation.Application, _ object) {
			s.Call("DELETE", "/oidc/clients/"+a.ID+"/users", nil).Want(200)
		}},
		{"own consent revoked", func(a installation.Application, _ object) {
			s.Call("DELETE", "/oidc/user/consent/"+a.ID, nil).Want(200)
		}},
		{"client deleted", func(a installation.Application, _ object) {
			s.Call("DELETE", "/oidc/clients/"+a.ID, nil).Want(200)
		}},
	} {
		t.Run(how.name, func(t *testing.T) {
			a := s.NewApplication(object{"scopes": []string{"openid", "offline_access", "account:read"}})
			tokens := redeemAt(s.NewRelyingParty(a, "openid", "offline_access", "account:read"), other, a)
			access := tokens["access_token"].(string)
			uses := map[string]func() bool{
				"userinfo": func() bool { return other.UserinfoStatus(access) == http.StatusOK },
				"management API": func() bool {
					return other.As(access).Call("GET", "/cli/auth/user", nil).Status == http.StatusOK
				},
				"introspection": func() bool {
					_, body := other.PostForm(a, "/introspect", url.Values{"token": {access}})
					return body["active"] == true
				},
				"refresh": func() bool {
					status, _ := other.PostForm(a, "/oauth/token", url.Values{
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
			waittest.Within(t, time.Second, "the other replica to refuse the tokens", func() bool {
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

// TestKnownBrowserIsNotLockedOutOnAnyReplica guesses at a replica at which the user has never been.
func TestKnownBrowserIsNotLockedOutOnAnyReplica(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "postgres")
	other := &installation.Steward{Steward: s.Steward.Replica(), T: t, Key: s.Key}
	other.Args = []string{"--trusted-proxies=127.0.0.0/8"}
	other.Start()
	known := s.NewBrowser()
	known.VisitAccount()
	known.PostAccount("/account/sign-out", nil) // the address of a session would be known as well
	known.Steward = other

	locked := false
	for i := 0; i < 5 && !locked; i++ { // one more guess is allowed every five seconds, which may be now
		locked = isLockedOut(other, fmt.Sprintf("192.0.%d", i))
	}
	if !locked {
		t.Fatal("the account is not locked")
	}
	if p := known.VisitAccount(); !strings.Contains(p.Body, "Your account") {
		t.Errorf("the known browser is locked out: %s", p.Body)
	}
}

// isLockedOut guesses the password of the owner, from the addresses of a network, until no more guesses are
// allowed, and reports whether the right one is then refused.
func isLockedOut(s *installation.Steward, network string) bool {
	s.T.Helper()
	b := s.NewBrowser()
	from := &addresses{}
	b.HTTP.Transport = from
	page := b.Do("GET", s.URL+"/account", nil)
	for i := range 250 { // more than the limit, which grows while they are sent
		from.address = fmt.Sprintf("%s.%d", network, i)
		guess := b.Submit(page, map[string]string{"email": installation.AdminEmail, "password": "wrong password"})
		if guess.Status == http.StatusTooManyRequests {
			break
		}
	}
	from.address = network + ".254"
	p := b.Submit(page, map[string]string{"email": installation.AdminEmail, "password": installation.AdminPassword})
	return p.Status == http.StatusTooManyRequests
}

// addresses sends the requests of a browser from other addresses, as a proxy would tell them.
type addresses struct{ address string }

func (a *addresses) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("X-Forwarded-For", a.address)
	return http.DefaultTransport.RoundTrip(r)
}
