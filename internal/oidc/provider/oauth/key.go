package oauth

import (
	"crypto/hmac"
	"crypto/sha256"
)

// Key is the installation's secret key, the same on all replicas. It authenticates refresh tokens, forms,
// nonces and cookies for known browsers.
type Key []byte

// MAC returns an HMAC-SHA-256 over parts. The purpose separates the key's uses.
func (k Key) MAC(purpose string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, k)
	h.Write([]byte(purpose))
	for _, part := range parts {
		h.Write([]byte{0, byte(len(part) >> 8), byte(len(part))})
		h.Write(part)
	}
	return h.Sum(nil)
}
