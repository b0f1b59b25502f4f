package e2e

import (
	"net/url"
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/process"
)

var clientCredentials = url.Values{"grant_type": {"client_credentials"}}

func dpopClient() object {
	return object{"scopes": []string{"webhook:read"}, "grant_types": []string{"client_credentials"}}
}

// callWithProof sends a request with a token and a proof.
func callWithProof(s *installation.Steward, token, proof, method, path string) *installation.Response {
	s.T.Helper()
	r, err := s.Send(method, path, nil, "Authorization", "DPoP "+token, "DPoP", proof)
	s.Must(err)
	return r
}

func TestProofIsUsedOnceOverAllReplicas(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "postgres")
	other := s.BalancedReplica()
	p := s.NewProver()
	token := s.RequestToken(s.NewApplication(dpopClient()), clientCredentials, p, "").Text("access_token")
	for _, path := range []string{"/webhook/list", "/sdk/webhook/list"} {
		proof := p.Proof("GET", s.URL+path, token, "")
		callWithProof(s, token, proof, "GET", path+"?limit=1").Want(200)
		callWithProof(s, token, proof, "GET", path+"?limit=1").Want(401)
		callWithProof(other, token, proof, "GET", path+"?limit=1").Want(401)
		callWithProof(other, token, p.Proof("GET", s.URL+path, token, ""), "GET", path).Want(200)
	}
}

func TestNonceOfTheServerIsDemanded(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := installation.Start(t, name, "--dpop-nonce")
			a, p := s.NewApplication(dpopClient()), s.NewProver()
			refused := s.TokenResponse(a, clientCredentials, p, "").Want(400)
			nonce := refused.Header.Get("DPoP-Nonce")
			if refused.Text("error") != "use_dpop_nonce" || nonce == "" {
				t.Fatalf("got %v %s", refused.Header, refused.Body)
			}
			s.RequestToken(a, clientCredentials, nil, "") // a token that is not bound needs none
			token := s.RequestToken(a, clientCredentials, p, nonce).Text("access_token")
			got := callWithProof(s, token, p.Proof("GET", s.URL+"/webhook/list", token, "another"), "GET", "/webhook/list").Want(401)
			if !strings.Contains(got.Header.Get("WWW-Authenticate"), `DPoP error="use_dpop_nonce"`) {
				t.Errorf("got %v", got.Header)
			}
			next := got.Header.Get("DPoP-Nonce")
			ok := callWithProof(s, token, p.Proof("GET", s.URL+"/webhook/list", token, next), "GET", "/webhook/list").Want(200)
			if ok.Header.Get("DPoP-Nonce") == "" {
				t.Error("no nonce for the next request")
			}
		})
	}
}
