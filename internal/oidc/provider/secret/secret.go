// Package secret owns the secret key of the installation, which authenticates refresh tokens, forms and
// the cookies of known browsers.
// It is generated at the first start, stored sealed, and the same on all replicas.
package secret

import (
	"crypto/hmac"
	"crypto/sha256"
)

// Key is the secret key.
type Key []byte

// MAC returns an HMAC-SHA-256 of parts. The purpose separates the uses of the key.
func (k Key) MAC(purpose string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, k)
	h.Write([]byte(purpose))
	for _, part := range parts {
		h.Write([]byte{0, byte(len(part) >> 8), byte(len(part))})
		h.Write(part)
	}
	return h.Sum(nil)
}
