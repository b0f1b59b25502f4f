package providertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/auth"
	"steward/internal/errs"
)

// ProofMaker makes a client's DPoP proofs.
type ProofMaker struct {
	T     *testing.T
	Key   any // the private key
	Alg   jose.SignatureAlgorithm
	Nonce string // empty for none
	Now   func() time.Time
}

// NewProofMaker returns a ProofMaker with a new key and the fixture's clock.
func (f *Fixture) NewProofMaker() *ProofMaker {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(f.T, err)
	return &ProofMaker{T: f.T, Key: key, Alg: jose.ES256, Now: f.Clock.Now}
}

// Ahead returns a ProofMaker whose clock is ahead by d.
func (m *ProofMaker) Ahead(d time.Duration) *ProofMaker {
	ahead := *m
	ahead.Now = func() time.Time { return m.Now().Add(d) }
	return &ahead
}

// Proof returns a proof for a request. The token is the request's access token, or "".
func (m *ProofMaker) Proof(jti, method, uri, token string) string {
	options := (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt")
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: m.Alg, Key: m.Key}, options)
	Must(m.T, err)
	claims := map[string]any{"jti": jti, "htm": method, "htu": uri, "iat": m.Now().Unix()}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if m.Nonce != "" {
		claims["nonce"] = m.Nonce
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	Must(m.T, err)
	return text
}

// BoundCaller presents a token with a proof to the management API.
func (f *Fixture) BoundCaller(target, token, proof string) (*auth.Caller, http.Header, error) {
	r := httptest.NewRequest("GET", target, nil)
	r.Header.Set("DPoP", proof)
	header := http.Header{}
	caller, err := f.Provider.BoundCaller(header, r, token)
	return caller, header, err
}

// WantChallenge requires an Unauthorized whose challenge contains part.
func WantChallenge(t *testing.T, what string, err error, part string) {
	t.Helper()
	var e *errs.Error
	if !errors.As(err, &e) || e.Kind != errs.Unauthorized || !strings.Contains(e.Challenge, part) {
		t.Errorf("proof %s: got %#v, want a challenge with %s", what, err, part)
	}
}
