package clientauth

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"time"

	"steward/internal/oidc/provider/oauth"
)

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
