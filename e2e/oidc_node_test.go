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

// nodeParty is a running party.mjs: a relying party on openid-client.
type nodeParty struct {
	s      *steward
	what   string
	in     io.WriteCloser
	out    *bufio.Scanner
	errors strings.Builder
	cmd    *exec.Cmd
}

func (s *steward) nodeParty(a application, what string) *nodeParty {
	s.t.Helper()
	if _, err := os.Stat("oidc/node_modules/openid-client"); err != nil {
		s.t.Fatal("openid-client is not installed: run `make deps`")
	}
	p := &nodeParty{s: s, what: what, cmd: exec.CommandContext(s.t.Context(), "node", "oidc/party.mjs", s.URL, a.id, a.secret, returnTo, what)}
	p.cmd.Stderr = &p.errors
	in, err := p.cmd.StdinPipe()
	s.must(err)
	out, err := p.cmd.StdoutPipe()
	s.must(err)
	p.in, p.out = in, bufio.NewScanner(out)
	s.must(p.cmd.Start())
	return p
}

// step reads what the party says next.
func (p *nodeParty) step() (said map[string]any) {
	p.s.t.Helper()
	if !p.out.Scan() {
		p.cmd.Wait()
		p.s.t.Fatalf("openid-client (%s) stopped: %s", p.what, p.errors.String())
	}
	p.s.must(json.Unmarshal(p.out.Bytes(), &said))
	return said
}

// openid-client discovers the provider and uses all of it: code, pushed requests, DPoP, devices, client_credentials, userinfo, refresh,
// introspection, revocation, logout.
func TestOpenIDClient(t *testing.T) {
	eachSignIn(t, func(t *testing.T, s *steward) {
		scopes := []string{"openid", "email", "offline_access", "webhook:read"}
		own := s.application(map[string]any{"grant_types": everyGrant, "scopes": scopes})
		open := s.application(map[string]any{
			"client_type": "public", "grant_types": []string{everyGrant[0], everyGrant[1], everyGrant[3]}, "scopes": scopes[:3],
		})
		for _, run := range []struct {
			a    application
			what string
			kind string
		}{
			{own, "code", "bearer"},
			{own, "par", "bearer"},
			{own, "dpop", "dpop"},
			{own, "device", "bearer"},
			{open, "code", "bearer"},
			{open, "par", "bearer"},
			{open, "dpop", "dpop"},
			{open, "device", "bearer"},
		} {
			v := s.visitor()
			p := s.nodeParty(run.a, run.what)
			at := v.visit(p.step()["go"].(string))
			if run.what != "device" {
				fmt.Fprintln(p.in, at.moved)
			}
			got := p.step()
			if got["email"] != adminEmail || got["turned"] != true || got["type"] != run.kind {
				t.Errorf("%s: got %v", run.what, got)
			}
			if run.a.secret != "" && (got["active"] != true || got["after"] != false) {
				t.Errorf("%s: introspection before and after revocation: %v", run.what, got)
			}
			if left := v.visit(got["logout"].(string)); !strings.Contains(left.body, "signed out") {
				t.Errorf("%s: logout shows %s", run.what, left.body)
			}
			s.must(p.cmd.Wait())
		}
		p := s.nodeParty(own, "machine")
		if got := p.step(); got["scope"] != "webhook:read" {
			t.Errorf("client_credentials: got %v", got)
		}
		s.must(p.cmd.Wait())
	})
}
