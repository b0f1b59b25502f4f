package installation

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/id"
)

// Prover makes a client's DPoP proofs.
type Prover struct {
	s      *Steward // its base URL is the issuer
	signer jose.Signer
}

// NewProver returns a prover with a new key.
func (s *Steward) NewProver() *Prover {
	s.T.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.Must(err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	s.Must(err)
	return &Prover{s, signer}
}

// Proof returns a new proof for a request. It includes the access token and the nonce unless they are
// empty.
func (p *Prover) Proof(method, uri, token, nonce string) string {
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

// RequestToken sends a request to the token endpoint, with a DPoP proof unless the prover is nil.
func (s *Steward) RequestToken(a Application, form url.Values, p *Prover, nonce string) *Response {
	s.T.Helper()
	r := s.TokenResponse(a, form, p, nonce)
	if r.Status != http.StatusOK {
		s.T.Fatalf("token endpoint: %d %s", r.Status, r.Body)
	}
	return r
}

// TokenResponse is RequestToken for requests that the server may refuse.
func (s *Steward) TokenResponse(a Application, form url.Values, p *Prover, nonce string) *Response {
	s.T.Helper()
	req, err := http.NewRequest("POST", s.URL+"/oauth/token", strings.NewReader(form.Encode()))
	s.Must(err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(a.ID, a.Secret)
	if p != nil {
		req.Header.Set("DPoP", p.Proof("POST", p.s.URL+"/oauth/token", "", nonce))
	}
	res, err := Client.Do(req)
	s.Must(err)
	r, err := ReadResponse(s.T, res)
	s.Must(err)
	return r
}
