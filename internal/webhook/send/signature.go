package send

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"time"
)

// Signer signs requests with a destination's secret. It is safe for concurrent use.
type Signer struct {
	key []byte
	// previous signs too until a time.
	previous []byte
	until    time.Time
}

// NewSigner returns a signer for a key: the decoded secret.
func NewSigner(key []byte) *Signer { return &Signer{key: key} }

// Until returns a signer that also signs with the key before the last rotation, until a time.
func (s *Signer) Until(until time.Time, previous []byte) *Signer {
	return &Signer{key: s.key, previous: previous, until: until}
}

// signatures returns the value of webhook-signature: one signature, or two while a secret is replaced.
func (s *Signer) signatures(messageID string, now time.Time, body []byte) string {
	timestamp := strconv.FormatInt(now.Unix(), 10)
	value := s.Sign(messageID, timestamp, body)
	if len(s.previous) > 0 && now.Before(s.until) {
		value += " " + NewSigner(s.previous).Sign(messageID, timestamp, body)
	}
	return value
}

// Sign returns the Standard Webhooks signature: HMAC-SHA256 over the message id, the timestamp in Unix
// seconds, and the body, separated by dots.
func (s *Signer) Sign(messageID, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(messageID + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
