package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"steward/e2e/process"
	"steward/internal/id"
)

// prover makes the DPoP proofs of a client.
type prover struct {
	s      *steward // whose base URL is the issuer
	signer jose.Signer
}

func newProver(s *steward) *prover {
	s.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	s.must(err)
	return &prover{s, signer}
}

// proof returns a new proof for a request with an access token, if that is not empty, and a nonce, if
// that is not.
func (p *prover) proof(method, uri, token, nonce string) string {
	claims := map[string]any{"jti": id.Secret(22), "htm": method, "htu": uri, "iat": time.Now().Unix()}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	text, err := jwt.Signed(p.signer).Claims(claims).Serialize()
	p.s.must(err)
	return text
}

var clientCredentials = url.Values{"grant_type": {"client_credentials"}}

func dpopClient() object {
	return object{"scopes": []string{"webhook:read"}, "grant_types": []string{"client_credentials"}}
}

// with sends a request with a token and a proof.
func (s *steward) with(token, proof, method, path string) *response {
	s.t.Helper()
	r, err := s.send(method, path, nil, "Authorization", "DPoP "+token, "DPoP", proof)
	s.must(err)
	return r
}

func TestProofIsUsedOnceOverAllReplicas(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, "postgres")
	other := s.balancedReplica()
	p := newProver(s)
	token := s.token(s.application(dpopClient()), clientCredentials, p, "").text("access_token")
	for _, path := range []string{"/webhook/list", "/sdk/webhook/list"} {
		proof := p.proof("GET", s.URL+path, token, "")
		s.with(token, proof, "GET", path+"?limit=1").want(200)
		s.with(token, proof, "GET", path+"?limit=1").want(401)
		other.with(token, proof, "GET", path+"?limit=1").want(401)
		other.with(token, p.proof("GET", s.URL+path, token, ""), "GET", path).want(200)
	}
}

func TestNonceOfTheServerIsDemanded(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := start(t, name, "--dpop-nonce")
			a, p := s.application(dpopClient()), newProver(s)
			refused := s.tokenResponse(a, clientCredentials, p, "").want(400)
			nonce := refused.header.Get("DPoP-Nonce")
			if refused.text("error") != "use_dpop_nonce" || nonce == "" {
				t.Fatalf("got %v %s", refused.header, refused.body)
			}
			s.token(a, clientCredentials, nil, "") // a token that is not bound needs none
			token := s.token(a, clientCredentials, p, nonce).text("access_token")
			got := s.with(token, p.proof("GET", s.URL+"/webhook/list", token, "another"), "GET", "/webhook/list").want(401)
			if !strings.Contains(got.header.Get("WWW-Authenticate"), `DPoP error="use_dpop_nonce"`) {
				t.Errorf("got %v", got.header)
			}
			next := got.header.Get("DPoP-Nonce")
			ok := s.with(token, p.proof("GET", s.URL+"/webhook/list", token, next), "GET", "/webhook/list").want(200)
			if ok.header.Get("DPoP-Nonce") == "" {
				t.Error("no nonce for the next request")
			}
		})
	}
}
