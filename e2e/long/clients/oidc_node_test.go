package clients

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"steward/e2e/installation"
)

// nodeRelyingParty is a running relying_party.mjs, a relying party with openid-client.
type nodeRelyingParty struct {
	s      *installation.Steward
	flow   string
	in     io.WriteCloser
	out    *bufio.Scanner
	errors strings.Builder
	cmd    *exec.Cmd
}

func startNodeRelyingParty(s *installation.Steward, a installation.Application, flow string) *nodeRelyingParty {
	s.T.Helper()
	if _, err := os.Stat("../../oidc/node_modules/openid-client"); err != nil {
		s.T.Fatal("openid-client is not installed: run `make deps`")
	}
	p := &nodeRelyingParty{s: s, flow: flow}
	p.cmd = exec.CommandContext(s.T.Context(), "node", "../../oidc/relying_party.mjs", s.URL, a.ID, a.Secret, installation.RedirectURI, flow)
	p.cmd.Stderr = &p.errors
	in, err := p.cmd.StdinPipe()
	s.Must(err)
	out, err := p.cmd.StdoutPipe()
	s.Must(err)
	p.in, p.out = in, bufio.NewScanner(out)
	s.Must(p.cmd.Start())
	return p
}

// next reads the next JSON object that the relying party prints.
func (p *nodeRelyingParty) next() (printed object) {
	p.s.T.Helper()
	if !p.out.Scan() {
		err := p.cmd.Wait()
		p.s.T.Fatalf("openid-client (%s) stopped: %v: %s", p.flow, err, p.errors.String())
	}
	p.s.Must(json.Unmarshal(p.out.Bytes(), &printed))
	return printed
}

// TestOpenIDClientUsesTheProvider uses the whole provider with openid-client: discovery, code, pushed
// requests, DPoP, device flow, client_credentials, userinfo, refresh, introspection, revocation,
// logout.
func TestOpenIDClientUsesTheProvider(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		scopes := []string{"openid", "email", "offline_access", "webhook:read"}
		confidential := s.NewApplication(object{"grant_types": installation.EveryGrant, "scopes": scopes})
		public := s.NewApplication(object{
			"client_type": "public", "scopes": scopes[:3],
			"grant_types": []string{installation.EveryGrant[0], installation.EveryGrant[1], installation.EveryGrant[3]},
		})
		for _, run := range []struct {
			a         installation.Application
			flow      string
			tokenType string
		}{
			{confidential, "code", "bearer"},
			{confidential, "par", "bearer"},
			{confidential, "dpop", "dpop"},
			{confidential, "device", "bearer"},
			{public, "code", "bearer"},
			{public, "par", "bearer"},
			{public, "dpop", "dpop"},
			{public, "device", "bearer"},
		} {
			signInWithNode(s, run.a, run.flow, run.tokenType)
		}
		p := startNodeRelyingParty(s, confidential, "client_credentials")
		if got := p.next(); got["scope"] != "webhook:read" {
			t.Errorf("client_credentials: got %v", got)
		}
		s.Must(p.cmd.Wait())
	})
}

// signInWithNode signs the owner in with openid-client, and uses the tokens.
func signInWithNode(s *installation.Steward, a installation.Application, flow, tokenType string) {
	s.T.Helper()
	b := s.NewBrowser()
	p := startNodeRelyingParty(s, a, flow)
	redirect := b.Visit(p.next()["visit"].(string))
	if flow != "device" {
		_, err := fmt.Fprintln(p.in, redirect.Location)
		s.Must(err)
	}
	got := p.next()
	if got["email"] != installation.AdminEmail || got["rotated"] != true || got["type"] != tokenType {
		s.T.Errorf("%s: got %v", flow, got)
	}
	if a.Secret != "" && (got["active"] != true || got["activeAfterRevocation"] != false) {
		s.T.Errorf("%s: introspection before and after revocation: %v", flow, got)
	}
	if page := b.Visit(got["logout"].(string)); !strings.Contains(page.Body, "signed out") {
		s.T.Errorf("%s: logout shows %s", flow, page.Body)
	}
	s.Must(p.cmd.Wait())
}

// TestOpenIDClientAuthenticatesWithAKey uses every endpoint for clients with assertions that openid-client signs.
func TestOpenIDClientAuthenticatesWithAKey(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		s.Must(err)
		key := jose.JSONWebKey{Key: private, KeyID: "node"}
		text, err := json.Marshal(key)
		s.Must(err)
		a := s.NewApplication(object{
			"grant_types": installation.EveryGrant, "scopes": []string{"openid", "email", "offline_access", "webhook:read"},
			"token_endpoint_auth_method": "private_key_jwt", "jwks": jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}},
		})
		a.Secret = string(text)
		for _, flow := range []string{"code", "par", "device"} {
			signInWithNode(s, a, flow, "bearer")
		}
		p := startNodeRelyingParty(s, a, "client_credentials")
		if got := p.next(); got["scope"] != "webhook:read" {
			t.Errorf("client_credentials: got %v", got)
		}
		s.Must(p.cmd.Wait())
	})
}
