package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// nodeRelyingParty is a running relying_party.mjs, a relying party with openid-client.
type nodeRelyingParty struct {
	s      *steward
	flow   string
	in     io.WriteCloser
	out    *bufio.Scanner
	errors strings.Builder
	cmd    *exec.Cmd
}

func (s *steward) nodeRelyingParty(a application, flow string) *nodeRelyingParty {
	s.t.Helper()
	if _, err := os.Stat("oidc/node_modules/openid-client"); err != nil {
		s.t.Fatal("openid-client is not installed: run `make deps`")
	}
	p := &nodeRelyingParty{s: s, flow: flow}
	p.cmd = exec.CommandContext(s.t.Context(), "node", "oidc/relying_party.mjs", s.URL, a.id, a.secret, redirectURI, flow)
	p.cmd.Stderr = &p.errors
	in, err := p.cmd.StdinPipe()
	s.must(err)
	out, err := p.cmd.StdoutPipe()
	s.must(err)
	p.in, p.out = in, bufio.NewScanner(out)
	s.must(p.cmd.Start())
	return p
}

// next reads the next JSON object that the relying party prints.
func (p *nodeRelyingParty) next() (printed object) {
	p.s.t.Helper()
	if !p.out.Scan() {
		err := p.cmd.Wait()
		p.s.t.Fatalf("openid-client (%s) stopped: %v: %s", p.flow, err, p.errors.String())
	}
	p.s.must(json.Unmarshal(p.out.Bytes(), &printed))
	return printed
}

// TestOpenIDClientUsesTheProvider uses the whole provider with openid-client: discovery, code, pushed
// requests, DPoP, device flow, client_credentials, userinfo, refresh, introspection, revocation,
// logout.
func TestOpenIDClientUsesTheProvider(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		scopes := []string{"openid", "email", "offline_access", "webhook:read"}
		confidential := s.application(object{"grant_types": everyGrant, "scopes": scopes})
		public := s.application(object{
			"client_type": "public", "scopes": scopes[:3],
			"grant_types": []string{everyGrant[0], everyGrant[1], everyGrant[3]},
		})
		for _, run := range []struct {
			a         application
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
			b := s.browser()
			p := s.nodeRelyingParty(run.a, run.flow)
			redirect := b.visit(p.next()["visit"].(string))
			if run.flow != "device" {
				_, err := fmt.Fprintln(p.in, redirect.location)
				s.must(err)
			}
			got := p.next()
			if got["email"] != adminEmail || got["rotated"] != true || got["type"] != run.tokenType {
				t.Errorf("%s: got %v", run.flow, got)
			}
			if run.a.secret != "" && (got["active"] != true || got["activeAfterRevocation"] != false) {
				t.Errorf("%s: introspection before and after revocation: %v", run.flow, got)
			}
			if page := b.visit(got["logout"].(string)); !strings.Contains(page.body, "signed out") {
				t.Errorf("%s: logout shows %s", run.flow, page.body)
			}
			s.must(p.cmd.Wait())
		}
		p := s.nodeRelyingParty(confidential, "client_credentials")
		if got := p.next(); got["scope"] != "webhook:read" {
			t.Errorf("client_credentials: got %v", got)
		}
		s.must(p.cmd.Wait())
	})
}
