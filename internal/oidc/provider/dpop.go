package provider

import (
	"crypto"
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
	"steward/internal/stamp"
)

const (
	schemeBearer = "Bearer"
	schemeDPoP   = "DPoP"
	// proofLife is how old a proof may be; it is remembered for that long, so that it serves once.
	proofLife = time.Minute
	maxProof  = 8 << 10
	maxJTI    = 512
)

// proofAlgs are the algorithms of proofs: asymmetric ones only, as RFC 9449 demands.
var proofAlgs = []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512, jose.EdDSA, jose.RS256, jose.PS256}

const proofAlgsText = "ES256 ES384 ES512 EdDSA RS256 PS256"

// proofClaims are the claims of a DPoP proof.
type proofClaims struct {
	JTI    string           `json:"jti"`
	Method string           `json:"htm"`
	URI    string           `json:"htu"`
	Issued *jwt.NumericDate `json:"iat"`
	Token  string           `json:"ath"`
}

func badProof(text string) *fault { return refuse(invalidProof, text) }

// proof is a DPoP proof that is right, and not yet used: by which key, and its own name.
type proof struct{ jkt, jti string }

// proofOf checks the request's DPoP proof; the jkt is empty when there is none. token is the access token that the proof must name, empty
// at the token endpoint. Whoever acts on it calls useProof too, as late as possible: what costs a write should cost the sender something
// first.
func (p *Provider) proofOf(r *http.Request, token string) (proof, error) {
	headers := r.Header.Values("DPoP")
	switch {
	case len(headers) == 0:
		return proof{}, nil
	case len(headers) > 1 || len(headers[0]) > maxProof:
		return proof{}, badProof("send one DPoP proof")
	}
	key, claims, f := readProof(headers[0])
	if f != nil {
		return proof{}, f
	}
	if f := p.checkProof(r, claims, token); f != nil {
		return proof{}, f
	}
	print, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return proof{}, badProof("the key of the proof cannot be used")
	}
	return proof{jkt: base64.RawURLEncoding.EncodeToString(print), jti: claims.JTI}, nil
}

// readProof checks the form and the signature of a proof.
func readProof(text string) (*jose.JSONWebKey, *proofClaims, *fault) {
	parsed, err := jwt.ParseSigned(text, proofAlgs)
	if err != nil || len(parsed.Headers) != 1 {
		return nil, nil, badProof("the proof is not a JWT with an algorithm that is supported")
	}
	header := parsed.Headers[0]
	key := header.JSONWebKey
	if typ, _ := header.ExtraHeaders[jose.HeaderType].(string); !strings.EqualFold(typ, "dpop+jwt") {
		return nil, nil, badProof("the typ of the proof must be dpop+jwt")
	}
	if key == nil || !key.Valid() || !key.IsPublic() {
		return nil, nil, badProof("the proof must carry a public key")
	}
	var claims proofClaims
	if err := parsed.Claims(key.Key, &claims); err != nil {
		return nil, nil, badProof("the signature of the proof is not valid")
	}
	return key, &claims, nil
}

func (p *Provider) checkProof(r *http.Request, c *proofClaims, token string) *fault {
	now := p.Now()
	switch {
	case c.JTI == "" || len(c.JTI) > maxJTI:
		return badProof("the proof must carry a jti of at most 512 characters")
	case c.Issued == nil || now.Sub(c.Issued.Time()) > proofLife || c.Issued.Time().Sub(now) > skew:
		return badProof("the iat of the proof is not recent")
	case c.Method != r.Method:
		return badProof("the htm of the proof is not the method of the request")
	case !sameURI(c.URI, p.Issuer+r.URL.Path):
		return badProof("the htu of the proof is not the address of the request")
	}
	if token != "" && subtle.ConstantTimeCompare([]byte(tokenHash(token)), []byte(c.Token)) != 1 {
		return badProof("the ath of the proof does not name the access token")
	}
	return nil
}

// sameURI compares without query and fragment, and with the default ports left out (RFC 9449 section 4.3).
func sameURI(given, ours string) bool {
	u, err := url.Parse(given)
	if err != nil || u.User != nil {
		return false
	}
	v, err := url.Parse(ours)
	return err == nil && strings.EqualFold(u.Scheme, v.Scheme) && hostPort(u) == hostPort(v) && u.Path == v.Path
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}

// useProof refuses a proof that was used before, on any replica. No proof is fine.
func (p *Provider) useProof(r *http.Request, used proof) error {
	if used.jkt == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(used.jkt + "\x00" + used.jti))
	fresh := false
	err := p.DB.Write(r.Context(), func(tx *db.Tx) (err error) {
		fresh, err = useProof(tx, sum[:], stamp.Of(p.Now()).Add(2*proofLife))
		return err
	})
	if err == nil && !fresh {
		return badProof("the proof was used before")
	}
	return err
}

// tokenHash is the `ath` of a token.
func tokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
