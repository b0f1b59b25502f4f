package verify

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Reason says why a request was rejected. It is empty for a request that was not.
type Reason string

// The reasons.
const (
	MissingSignature   Reason = "missing_signature"
	WrongSignature     Reason = "wrong_signature"
	BadTimestamp       Reason = "bad_timestamp" // missing, malformed, or outside the tolerance
	MissingCredentials Reason = "missing_credentials"
	WrongCredentials   Reason = "wrong_credentials"
	WrongToken         Reason = "wrong_challenge_token"
)

// Message describes the reason for the sender.
func (r Reason) Message() string { return strings.ReplaceAll(string(r), "_", " ") }

// Verifier verifies requests. It is safe for concurrent use.
type Verifier struct {
	settings Settings
	keys     [][]byte
	schemes  []scheme // for signatures
	hash     func() hash.Hash
	decode   func(string) ([]byte, error)
	// tolerance is how far a timestamp may be from now.
	tolerance time.Duration
}

// scheme says where a request has its signatures and timestamp, and what is signed.
type scheme struct {
	header string
	// separator is between several signatures in the header, or "". With the prefix timestampPrefix, an
	// entry is the timestamp.
	separator, prefix                string
	timestampHeader, timestampPrefix string
	signed                           string

	parts []part
}

// presets are the schemes of the types that have no further settings. Their signatures are HMAC-SHA256.
var presets = map[Type][]scheme{
	Standard: {
		{header: "Webhook-Signature", separator: " ", prefix: "v1,", timestampHeader: "Webhook-Timestamp", signed: "{header:webhook-id}.{timestamp}.{body}"},
		{header: "Svix-Signature", separator: " ", prefix: "v1,", timestampHeader: "Svix-Timestamp", signed: "{header:svix-id}.{timestamp}.{body}"},
	},
	Stripe:  {{header: "Stripe-Signature", separator: ",", prefix: "v1=", timestampPrefix: "t=", signed: "{timestamp}.{body}"}},
	GitHub:  {{header: "X-Hub-Signature-256", prefix: "sha256=", signed: "{body}"}},
	Shopify: {{header: "X-Shopify-Hmac-Sha256", signed: "{body}"}},
	Slack:   {{header: "X-Slack-Signature", prefix: "v0=", timestampHeader: "X-Slack-Request-Timestamp", signed: "v0:{timestamp}:{body}"}},
}

var (
	hashes   = map[string]func() hash.Hash{"": sha256.New, "sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}
	decoders = map[string]func(string) ([]byte, error){
		"": hex.DecodeString, "hex": hex.DecodeString, "base64": base64.StdEncoding.DecodeString,
	}
)

// New returns a verifier for settings with their secrets.
func New(s Settings) (*Verifier, error) {
	v := &Verifier{settings: s, tolerance: defaultTolerance * time.Second}
	schemes := presets[s.Type]
	if s.Type == HMAC {
		schemes = []scheme{{header: s.Header, prefix: s.Prefix, timestampHeader: s.TimestampHeader, signed: s.Signed}}
	}
	if s.Type == Standard || s.Type == Shopify {
		s.Encoding = "base64"
	}
	v.hash = hashes[s.Algorithm]
	v.decode = decoders[s.Encoding]
	if s.Tolerance != nil {
		v.tolerance = time.Duration(*s.Tolerance) * time.Second
	}
	for _, scheme := range schemes {
		var err error
		if scheme.parts, err = parseSigned(scheme.signed); err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
		v.schemes = append(v.schemes, scheme)
	}
	for _, secret := range s.Secrets {
		key := []byte(secret)
		if s.Type == Standard {
			var err error
			if key, err = standardKey(secret); err != nil {
				return nil, err
			}
		}
		v.keys = append(v.keys, key)
	}
	return v, nil
}

// Scheme returns the WWW-Authenticate header for rejected requests.
func (v *Verifier) Scheme() string {
	if v.settings.Type == Basic {
		return `Basic realm="webhook"`
	}
	return "Signature"
}

// Verify returns why a request is rejected, or "".
func (v *Verifier) Verify(r *http.Request, body []byte, now time.Time) Reason {
	if v.isMetaChallenge(r) {
		if !equal(r.URL.Query().Get("hub.verify_token"), v.settings.ChallengeToken) {
			return WrongToken
		}
		return ""
	}
	switch v.settings.Type {
	case Basic:
		return v.basic(r)
	case Header:
		return v.credential(r.Header)
	}
	for _, s := range v.schemes {
		if r.Header.Get(s.header) != "" {
			return v.signature(s, r.Header, body, now)
		}
	}
	return MissingSignature
}

func (v *Verifier) basic(r *http.Request) Reason {
	username, password, ok := r.BasicAuth()
	if !ok {
		return MissingCredentials
	}
	isUser := equal(username, v.settings.Username)
	if !v.isSecret(password) || !isUser {
		return WrongCredentials
	}
	return ""
}

func (v *Verifier) credential(h http.Header) Reason {
	value, ok := only(h, v.settings.Header)
	if !ok {
		return MissingCredentials
	}
	value, ok = strings.CutPrefix(value, v.settings.Prefix)
	if !ok || !v.isSecret(value) {
		return WrongCredentials
	}
	return ""
}

// isSecret compares a value with every secret.
func (v *Verifier) isSecret(value string) bool {
	found := false
	for _, secret := range v.settings.Secrets {
		found = equal(value, secret) || found
	}
	return found
}

// equal compares two texts in a time that tells nothing about either.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// only returns the value of a header that a request has once.
func only(h http.Header, name string) (string, bool) {
	values := h.Values(name)
	if len(values) != 1 {
		return "", false
	}
	return values[0], true
}

// signature checks the timestamp and compares every signature in the header with those that the secrets
// make.
func (v *Verifier) signature(s scheme, h http.Header, body []byte, now time.Time) Reason {
	signatures, timestamp := s.read(h)
	if len(signatures) == 0 {
		return MissingSignature
	}
	if s.timestampHeader != "" || s.timestampPrefix != "" {
		at, ok := parseTime(timestamp)
		if !ok || now.Sub(at).Abs() > v.tolerance {
			return BadTimestamp
		}
	}
	text := signedText{h, timestamp, body}
	for _, key := range v.keys {
		mac := hmac.New(v.hash, key)
		if !text.write(mac, s.parts) {
			return WrongSignature
		}
		want := mac.Sum(nil)
		for _, signature := range signatures {
			if got, err := v.decode(signature); err == nil && hmac.Equal(got, want) {
				return ""
			}
		}
	}
	return WrongSignature
}

// read returns a request's signatures, without their prefix, and its timestamp.
func (s scheme) read(h http.Header) (signatures []string, timestamp string) {
	if s.timestampHeader != "" {
		timestamp, _ = only(h, s.timestampHeader)
	}
	for _, value := range h.Values(s.header) {
		entries := []string{value}
		if s.separator != "" {
			entries = strings.Split(value, s.separator)
		}
		for _, entry := range entries {
			entry = strings.TrimSpace(entry)
			if at, ok := strings.CutPrefix(entry, s.timestampPrefix); ok && s.timestampPrefix != "" {
				timestamp = at
			} else if signature, ok := strings.CutPrefix(entry, s.prefix); ok {
				signatures = append(signatures, signature)
			}
		}
	}
	return signatures, timestamp
}

// parseTime parses Unix seconds, Unix milliseconds, or RFC 3339.
func parseTime(text string) (time.Time, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n > 1e11 { // in seconds, the year 5138
			return time.UnixMilli(n), true
		}
		return time.Unix(n, 0), n > 0
	}
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil
}

// part is a part of the text that is signed.
type part struct {
	kind partKind
	text string // a header's name, or the text itself
}

type partKind int

const (
	partText partKind = iota
	partBody
	partTimestamp
	partHeader
)

// parseSigned parses the description of a text that is signed. Empty means {body}.
func parseSigned(text string) (parts []part, err error) {
	if text == "" {
		text = "{body}"
	}
	for text != "" {
		literal, rest, found := strings.Cut(text, "{")
		if literal != "" {
			parts = append(parts, part{partText, literal})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, "}")
		header, isHeader := strings.CutPrefix(name, "header:")
		switch {
		case closed && name == "body":
			parts = append(parts, part{kind: partBody})
		case closed && name == "timestamp":
			parts = append(parts, part{kind: partTimestamp})
		case closed && isHeader && isToken(header):
			parts = append(parts, part{partHeader, header})
		default:
			return nil, fmt.Errorf("expected text with {body}, {timestamp} or {header:name}")
		}
		text = after
	}
	return parts, nil
}

// signedText has what the text that is signed is made of.
type signedText struct {
	headers   http.Header
	timestamp string
	body      []byte
}

// write writes the text. It reports false if a header in it is missing or repeated: what a repeated one
// delivers would not be what was signed.
func (s signedText) write(to hash.Hash, parts []part) bool {
	for _, p := range parts {
		switch p.kind {
		case partBody:
			to.Write(s.body)
		case partTimestamp:
			to.Write([]byte(s.timestamp))
		case partHeader:
			value, ok := only(s.headers, p.text)
			if !ok {
				return false
			}
			to.Write([]byte(value))
		case partText:
			to.Write([]byte(p.text))
		}
	}
	return true
}
