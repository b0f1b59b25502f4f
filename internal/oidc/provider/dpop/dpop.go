// Package dpop owns DPoP proofs (RFC 9449). With a proof, a client shows that it holds the key that a
// token is bound to.
//
// Verify checks a proof without a write. Use stores it, so that we accept it once; call it as late as
// possible, after accepting the rest of the request. If the installation demands nonces (nonce.go), a
// proof must also contain one that this server has issued recently.
package dpop

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/db"
	"steward/internal/oidc/provider/oauth"
)

const (
	// lifetime is a proof's maximum age.
	lifetime = time.Minute
	// clockSkew limits how far in the future a proof may be issued.
	clockSkew = 30 * time.Second
	maxSize   = 8 << 10
	maxJTI    = 512
	minRSA    = 2048 // bits
)

// algorithms lists the signature algorithms that we accept. RFC 9449 requires them to be asymmetric.
var algorithms = []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512, jose.EdDSA, jose.RS256, jose.PS256}

// Algorithms returns the names of the signature algorithms that we accept.
func Algorithms() []string {
	names := make([]string, len(algorithms))
	for i, a := range algorithms {
		names[i] = string(a)
	}
	return names
}

// Verifier verifies requests' proofs.
type Verifier struct {
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

type claims struct {
	JTI      string           `json:"jti"`
	Method   string           `json:"htm"`
	URI      string           `json:"htu"`
	IssuedAt *jwt.NumericDate `json:"iat"`
	Token    string           `json:"ath"`
	Nonce    string           `json:"nonce"`
}

func invalid(description string) *oauth.Error {
	return oauth.NewError(oauth.InvalidDPoPProof, description)
}

// Verify verifies a request's proof, if it has one. The proof must name accessToken, which is empty
// where the client presents no access token.
func (v *Verifier) Verify(r *http.Request, accessToken string) (Proof, error) {
	headers := r.Header.Values("DPoP")
	switch {
	case len(headers) == 0:
		return Proof{}, nil
	case len(headers) > 1 || len(headers[0]) > maxSize:
		return Proof{}, invalid("send exactly one DPoP proof of at most 8 KiB")
	}
	key, c, err := parse(headers[0])
	if err != nil {
		return Proof{}, err
	}
	now := v.Now()
	switch {
	case c.JTI == "" || len(c.JTI) > maxJTI:
		return Proof{}, invalid("the proof must have a jti of at most 512 characters")
	case c.IssuedAt == nil || now.Sub(c.IssuedAt.Time()) > lifetime || c.IssuedAt.Time().Sub(now) > clockSkew:
		return Proof{}, invalid("the iat of the proof is not recent")
	case c.Method != r.Method:
		return Proof{}, invalid("the htm of the proof is not the method of the request")
	case !sameURI(c.URI, v.Issuer+requestPath(r)):
		return Proof{}, invalid("the htu of the proof is not the URI of the request")
	}
	if accessToken != "" && subtle.ConstantTimeCompare([]byte(hash(accessToken)), []byte(c.Token)) != 1 {
		return Proof{}, invalid("the ath of the proof is not the hash of the access token")
	}
	if err := v.checkNonce(c.Nonce); err != nil {
		return Proof{}, err
	}
	thumbprint, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return Proof{}, invalid("the key of the proof is not supported")
	}
	return Proof{JKT: base64.RawURLEncoding.EncodeToString(thumbprint), jti: c.JTI}, nil
}

func parse(text string) (*jose.JSONWebKey, *claims, error) {
	parsed, err := jwt.ParseSigned(text, algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return nil, nil, invalid("the proof is not a JWT with a supported algorithm")
	}
	header := parsed.Headers[0]
	if typ, _ := header.ExtraHeaders[jose.HeaderType].(string); !strings.EqualFold(typ, "dpop+jwt") {
		return nil, nil, invalid("the typ of the proof must be dpop+jwt")
	}
	key := header.JSONWebKey
	if key == nil || !key.Valid() || !key.IsPublic() {
		return nil, nil, invalid("the proof must contain a public key")
	}
	if k, ok := key.Key.(*rsa.PublicKey); ok && k.N.BitLen() < minRSA {
		return nil, nil, invalid("an RSA key must have at least 2048 bits")
	}
	var c claims
	if err := parsed.Claims(key.Key, &c); err != nil {
		return nil, nil, invalid("the signature of the proof is invalid")
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

// hash returns an access token's ath.
func hash(accessToken string) string {
	sum := sha256.Sum256([]byte(accessToken))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
