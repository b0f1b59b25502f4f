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

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/id"
)

// prover makes the DPoP proofs of a client.
type prover struct {
	s      *installation.Steward // whose base URL is the issuer
	signer jose.Signer
}

func newProver(s *installation.Steward) *prover {
	s.T.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.Must(err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	s.Must(err)
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
	p.s.Must(err)
	return text
}

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
	other := balancedReplica(s)
	p := newProver(s)
	token := requestToken(s, s.NewApplication(dpopClient()), clientCredentials, p, "").Text("access_token")
	for _, path := range []string{"/webhook/list", "/sdk/webhook/list"} {
		proof := p.proof("GET", s.URL+path, token, "")
		callWithProof(s, token, proof, "GET", path+"?limit=1").Want(200)
		callWithProof(s, token, proof, "GET", path+"?limit=1").Want(401)
		callWithProof(other, token, proof, "GET", path+"?limit=1").Want(401)
		callWithProof(other, token, p.proof("GET", s.URL+path, token, ""), "GET", path).Want(200)
	}
}

func TestNonceOfTheServerIsDemanded(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := installation.Start(t, name, "--dpop-nonce")
			a, p := s.NewApplication(dpopClient()), newProver(s)
			refused := tokenResponse(s, a, clientCredentials, p, "").Want(400)
			nonce := refused.Header.Get("DPoP-Nonce")
			if refused.Text("error") != "use_dpop_nonce" || nonce == "" {
				t.Fatalf("got %v %s", refused.Header, refused.Body)
			}
			requestToken(s, a, clientCredentials, nil, "") // a token that is not bound needs none
			token := requestToken(s, a, clientCredentials, p, nonce).Text("access_token")
			got := callWithProof(s, token, p.proof("GET", s.URL+"/webhook/list", token, "another"), "GET", "/webhook/list").Want(401)
			if !strings.Contains(got.Header.Get("WWW-Authenticate"), `DPoP error="use_dpop_nonce"`) {
				t.Errorf("got %v", got.Header)
			}
			next := got.Header.Get("DPoP-Nonce")
			ok := callWithProof(s, token, p.proof("GET", s.URL+"/webhook/list", token, next), "GET", "/webhook/list").Want(200)
			if ok.Header.Get("DPoP-Nonce") == "" {
				t.Error("no nonce for the next request")
			}
		})
	}
}
