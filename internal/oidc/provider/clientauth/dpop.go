package clientauth

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/db"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/stamp"
)

const (
	// proofLifetime is a proof's maximum age.
	proofLifetime = time.Minute
	maxProof      = 8 << 10
	minRSA        = 2048 // bits
)

// proofAlgorithms lists the signature proofAlgorithms that we accept. RFC 9449 requires them to be asymmetric.
var proofAlgorithms = []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512, jose.EdDSA, jose.RS256, jose.PS256}

// ProofAlgorithms returns the names of the signature proofAlgorithms that we accept.
func ProofAlgorithms() []string {
	names := make([]string, len(proofAlgorithms))
	for i, a := range proofAlgorithms {
		names[i] = string(a)
	}
	return names
}

// ProofVerifier verifies requests' proofs.
type ProofVerifier struct {
	DB  *db.DB
	Now func() time.Time
	// Issuer is the base URL of the endpoints that proofs are made for.
	Issuer string
	// NonceKey authenticates the nonces that proofs must contain. If it is nil, they need none.
	NonceKey oauth.Key
}

// Proof is a verified proof. The zero Proof stands for a request without one.
type Proof struct {
	// JKT is the key's thumbprint (RFC 7638).
	JKT string
	jti string
}

type proofClaims struct {
	JTI      string           `json:"jti"`
	Method   string           `json:"htm"`
	URI      string           `json:"htu"`
	IssuedAt *jwt.NumericDate `json:"iat"`
	Token    string           `json:"ath"`
	Nonce    string           `json:"nonce"`
}

func invalidProof(description string) *oauth.Error {
	return oauth.NewError(oauth.InvalidDPoPProof, description)
}

// Verify verifies a request's proof, if it has one. The proof must name accessToken, which is empty
// where the client presents no access token.
func (v *ProofVerifier) Verify(r *http.Request, accessToken string) (Proof, error) {
	headers := r.Header.Values("DPoP")
	switch {
	case len(headers) == 0:
		return Proof{}, nil
	case len(headers) > 1 || len(headers[0]) > maxProof:
		return Proof{}, invalidProof("send exactly one DPoP proof of at most 8 KiB")
	}
	key, c, err := parseProof(headers[0])
	if err != nil {
		return Proof{}, err
	}
	now := v.Now()
	switch {
	case c.JTI == "" || len(c.JTI) > maxJTI:
		return Proof{}, invalidProof("the proof must have a jti of at most 512 characters")
	case c.IssuedAt == nil || now.Sub(c.IssuedAt.Time()) > proofLifetime || c.IssuedAt.Time().Sub(now) > clockSkew:
		return Proof{}, invalidProof("the iat of the proof is not recent")
	case c.Method != r.Method:
		return Proof{}, invalidProof("the htm of the proof is not the method of the request")
	case !sameURI(c.URI, v.Issuer+requestPath(r)):
		return Proof{}, invalidProof("the htu of the proof is not the URI of the request")
	}
	if accessToken != "" && subtle.ConstantTimeCompare([]byte(tokenHash(accessToken)), []byte(c.Token)) != 1 {
		return Proof{}, invalidProof("the ath of the proof is not the hash of the access token")
	}
	if err := v.checkNonce(c.Nonce); err != nil {
		return Proof{}, err
	}
	thumbprint, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return Proof{}, invalidProof("the key of the proof is not supported")
	}
	return Proof{JKT: base64.RawURLEncoding.EncodeToString(thumbprint), jti: c.JTI}, nil
}

// Use stores a proof and returns an error if it was used before, on any replica. It always accepts the
// zero Proof.
func (v *ProofVerifier) Use(ctx context.Context, p Proof) error {
	if p.JKT == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(p.JKT + "\x00" + p.jti))
	expires := stamp.Of(v.Now()).Add(2 * proofLifetime)
	inserted, err := v.DB.Exec(ctx, `INSERT INTO oidc_proofs (proof_hash, expires_at) VALUES ($1, $2)
		ON CONFLICT (proof_hash) DO NOTHING`, sum[:], expires)
	if err != nil {
		return fmt.Errorf("store DPoP proof: %w", err)
	}
	if inserted == 0 {
		return invalidProof("the proof was used before")
	}
	return nil
}

func parseProof(text string) (*jose.JSONWebKey, *proofClaims, error) {
	parsed, err := jwt.ParseSigned(text, proofAlgorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return nil, nil, invalidProof("the proof is not a JWT with a supported algorithm")
	}
	header := parsed.Headers[0]
	if typ, _ := header.ExtraHeaders[jose.HeaderType].(string); !strings.EqualFold(typ, "dpop+jwt") {
		return nil, nil, invalidProof("the typ of the proof must be dpop+jwt")
	}
	key := header.JSONWebKey
	if key == nil || !key.Valid() || !key.IsPublic() {
		return nil, nil, invalidProof("the proof must contain a public key")
	}
	if k, ok := key.Key.(*rsa.PublicKey); ok && k.N.BitLen() < minRSA {
		return nil, nil, invalidProof("an RSA key must have at least 2048 bits")
	}
	var c proofClaims
	if err := parsed.Claims(key.Key, &c); err != nil {
		return nil, nil, invalidProof("the signature of the proof is invalid")
	}
	return key, &c, nil
}

// requestPath returns the path that the client has requested. It differs from r.URL.Path where a part
// of the API is mounted under a prefix.
func requestPath(r *http.Request) string {
	u, err := url.ParseRequestURI(r.RequestURI)
	if err != nil {
		return r.URL.Path
	}
	return u.Path
}

// sameURI compares two URIs without their query and fragment, with default ports (RFC 9449 section
// 4.3).
func sameURI(given, want string) bool {
	g, err := url.Parse(given)
	if err != nil || g.User != nil {
		return false
	}
	w, err := url.Parse(want)
	if err != nil {
		return false
	}
	return strings.EqualFold(g.Scheme, w.Scheme) && hostPort(g) == hostPort(w) && g.Path == w.Path
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

// tokenHash returns an access token's ath.
func tokenHash(accessToken string) string {
	sum := sha256.Sum256([]byte(accessToken))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

const (
	// NonceHeader is the response header with the nonce for the next proof.
	NonceHeader = "DPoP-Nonce"
	// We issue the same nonce for nonceInterval. We also accept it in the next interval, and in the one
	// before, since replicas' clocks differ.
	nonceInterval = 2 * time.Minute
)

// errNonce tells the client to repeat the request with the response's nonce (RFC 9449 sections 8 and
// 9).
var errNonce = oauth.NewError(oauth.UseDPoPNonce, "the proof must contain the nonce of the DPoP-Nonce header")

// SetNonce adds the nonce for the client's next proof to the response headers, if proofs need one.
func (v *ProofVerifier) SetNonce(h http.Header) {
	if v.NonceKey != nil {
		h.Set(NonceHeader, v.nonce(v.interval()))
	}
}

// WithNonce returns a handler whose responses have the nonce for the client's next proof, if proofs
// need one.
func (v *ProofVerifier) WithNonce(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v.SetNonce(w.Header())
		next(w, r)
	}
}

// checkNonce returns errNonce if proofs need a nonce and no replica issued this one recently.
func (v *ProofVerifier) checkNonce(nonce string) error {
	if v.NonceKey == nil {
		return nil
	}
	now := v.interval()
	for _, interval := range []int64{now, now - 1, now + 1} {
		if subtle.ConstantTimeCompare([]byte(nonce), []byte(v.nonce(interval))) == 1 {
			return nil
		}
	}
	return errNonce
}

// interval returns the current interval's number since 1970.
func (v *ProofVerifier) interval() int64 { return v.Now().Unix() / int64(nonceInterval.Seconds()) }

// nonce returns an interval's nonce. All replicas have the same key, so we store nothing.
func (v *ProofVerifier) nonce(interval int64) string {
	mac := v.NonceKey.MAC("dpop nonce", binary.BigEndian.AppendUint64(nil, uint64(interval)))
	return base64.RawURLEncoding.EncodeToString(mac[:16])
}
