package send

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// Signer signs requests with a destination's secret. It is safe for concurrent use.
type Signer struct{ key []byte }

// NewSigner returns a signer for a key: the decoded secret.
func NewSigner(key []byte) *Signer { return &Signer{key} }

// sign returns the Standard Webhooks signature: HMAC-SHA256 over the message id, the timestamp in Unix
// seconds, and the body, separated by dots.
func (s *Signer) sign(messageID, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(messageID + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
