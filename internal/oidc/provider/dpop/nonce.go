package dpop

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
	// nonceInterval is how long the same nonce is issued. A nonce is accepted in the interval after its
	// own too, and in the one before, since the clocks of replicas differ.
	nonceInterval = 2 * time.Minute
)

// errNonce tells the client to repeat the request with the nonce of the response (RFC 9449 sections 8
// and 9).
var errNonce = oauth.NewError(oauth.UseDPoPNonce, "the proof must contain the nonce of the DPoP-Nonce header")

// SetNonce adds the nonce for the client's next proof to the headers of a response, if nonces are
// demanded.
func (v *Verifier) SetNonce(h http.Header) {
	if v.NonceKey != nil {
		h.Set(NonceHeader, v.nonce(v.interval()))
	}
}

// WithNonce returns a handler whose responses have the nonce for the client's next proof, if nonces are
// demanded.
func (v *Verifier) WithNonce(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v.SetNonce(w.Header())
		next(w, r)
	}
}

// checkNonce returns errNonce if a nonce is demanded and this one was not issued lately, by any replica.
func (v *Verifier) checkNonce(nonce string) error {
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

// interval returns the number of the current interval since 1970.
func (v *Verifier) interval() int64 { return v.Now().Unix() / int64(nonceInterval.Seconds()) }

// nonce returns the nonce of an interval. All replicas have the same key, so nothing is stored.
func (v *Verifier) nonce(interval int64) string {
	mac := v.NonceKey.MAC("dpop nonce", binary.BigEndian.AppendUint64(nil, uint64(interval)))
	return base64.RawURLEncoding.EncodeToString(mac[:16])
}
