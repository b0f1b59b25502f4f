// Package verify decides whether a request comes from a webhook's sender: by a signature, as Standard
// Webhooks, Stripe, GitHub, Shopify and Slack make them, or by a credential.
//
// Settings is what users configure. Split takes the secrets out before anything is stored or shown, and
// Join puts them back for New, which compiles settings into a Verifier.
package verify

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"steward/internal/errs"
)

// Type says how requests prove where they come from.
type Type string

// The types.
const (
	Standard Type = "standard"
	Stripe   Type = "stripe"
	GitHub   Type = "github"
	Shopify  Type = "shopify"
	Slack    Type = "slack"
	HMAC     Type = "hmac"
	Basic    Type = "basic"
	Header   Type = "header"
)

// Settings is a webhook's verification.
type Settings struct {
	_ struct{} `goName:"WebhookVerification"`

	Type            Type     `json:"type" enum:"standard,stripe,github,shopify,slack,hmac,basic,header" doc:"How requests prove where they come from. standard is Standard Webhooks and Svix; hmac is any other signature with a shared secret, as the fields below describe it; basic is HTTP Basic authentication; header is a header with the secret itself" example:"stripe"`
	Secrets         []string `json:"secrets" minItems:"1" maxItems:"2" doc:"The secret, or two while it is being replaced: either is accepted. Responses show ***. In an update, each *** keeps the next stored secret, in their order" example:"[\"***\"]"`
	Tolerance       *int64   `json:"tolerance_seconds,omitempty" nullable:"false" minimum:"1" maximum:"86400" doc:"How far a signed timestamp may be from the server's time (default 300); for standard, stripe, slack, and hmac with timestamp_header" example:"300"`
	Header          string   `json:"header,omitempty" maxLength:"128" doc:"For hmac, the header with the signature. For header, the one with the secret: authorization, or a name that ends in -key, -token, -secret or -signature, whose values viewers do not see" example:"x-signature"`
	Prefix          string   `json:"prefix,omitempty" maxLength:"64" doc:"For hmac and header, the text before the signature or secret" example:"sha256="`
	Algorithm       string   `json:"algorithm,omitempty" enum:"sha1,sha256,sha512" doc:"For hmac: the hash function (default sha256)" example:"sha256"`
	Encoding        string   `json:"encoding,omitempty" enum:"hex,base64" doc:"For hmac: the encoding of the signature (default hex)" example:"hex"`
	Signed          string   `json:"signed,omitempty" maxLength:"256" doc:"For hmac: the text that is signed, in which {body}, {timestamp} and {header:name} stand for parts of the request (default {body})" example:"{timestamp}.{body}"`
	TimestampHeader string   `json:"timestamp_header,omitempty" maxLength:"128" doc:"For hmac: the header with the timestamp, in Unix seconds or milliseconds or as RFC 3339; signed must contain {timestamp}" example:"x-timestamp"`
	Username        string   `json:"username,omitempty" maxLength:"256" doc:"For basic: the user name; the secrets are passwords" example:"shop"`
	Challenge       string   `json:"challenge,omitempty" enum:"meta,field" doc:"Which challenges are answered, after verification: meta is a GET with hub.mode=subscribe and the challenge_token; field is a request with challenge_field. Those of Slack are answered anyway" example:"meta"`
	ChallengeToken  string   `json:"challenge_token,omitempty" maxLength:"512" doc:"For meta: the verify token. Responses show ***, and *** in an update keeps it" example:"***"`
	ChallengeField  string   `json:"challenge_field,omitempty" maxLength:"128" doc:"For field: the name of the query parameter, or of the member of the JSON body, whose value is the response" example:"challenge"`
}

// Mask stands for a secret.
const Mask = "***"

const (
	maxSecret        = 1024
	defaultTolerance = 300
)

// Secrets are the parts of settings that nobody sees again.
type Secrets struct {
	Secrets        []string `json:"secrets"`
	ChallengeToken string   `json:"challenge_token,omitempty"`
}

// Split returns the settings with masks in place of secrets, and the secrets.
func (s Settings) Split() (Settings, Secrets) {
	secrets := Secrets{Secrets: s.Secrets, ChallengeToken: s.ChallengeToken}
	s.Secrets = slices.Repeat([]string{Mask}, len(s.Secrets))
	if s.ChallengeToken != "" {
		s.ChallengeToken = Mask
	}
	return s, secrets
}

// HasMask reports whether a mask stands for a stored secret.
func (s Settings) HasMask() bool { return slices.Contains(s.Secrets, Mask) || s.ChallengeToken == Mask }

// Join replaces masks with stored secrets: each mask with the next one. It returns Invalid if there are
// more masks than secrets.
func (s Settings) Join(stored Secrets) (Settings, error) {
	var faults errs.Faults
	s.Secrets = slices.Clone(s.Secrets)
	rest := stored.Secrets
	for i, secret := range s.Secrets {
		if secret != Mask {
			continue
		}
		if len(rest) == 0 {
			faults.Add(fmt.Sprintf("%s.secrets[%d]", location, i), "expected the secret: none is stored that *** could keep")
			break
		}
		s.Secrets[i] = rest[0]
		rest = rest[1:]
	}
	if s.ChallengeToken == Mask {
		faults.Check(stored.ChallengeToken != "", location+".challenge_token", "expected the token: none is stored that *** could keep")
		s.ChallengeToken = stored.ChallengeToken
	}
	s.Check(&faults)
	return s, faults.Err()
}

// location is where requests have settings.
const location = "body.verification"

// fields lists the settings that a type has besides its secrets. Challenges go with every type.
var fields = map[Type][]string{
	Standard: {"tolerance_seconds"}, Stripe: {"tolerance_seconds"}, GitHub: nil, Shopify: nil, Slack: {"tolerance_seconds"},
	HMAC:  {"tolerance_seconds", "header", "prefix", "algorithm", "encoding", "signed", "timestamp_header"},
	Basic: {"username"}, Header: {"header", "prefix"},
}

// Check adds the faults in settings, whose secrets may be masks.
func (s Settings) Check(faults *errs.Faults) {
	if _, known := fields[s.Type]; !known {
		faults.Add(location+".type", "expected one of the documented types")
		return
	}
	s.checkFields(faults)
	s.checkSecrets(faults)
	switch s.Type {
	case HMAC:
		faults.Check(isToken(s.Header), location+".header", "expected the name of the header with the signature")
		s.checkSigned(faults)
	case Header:
		faults.Check(isToken(s.Header) && IsHidden(strings.ToLower(s.Header)), location+".header",
			"expected authorization, or a name that ends in -key, -token, -secret or -signature: viewers see the values of others")
	case Basic:
		faults.Check(s.Username != "" && !strings.ContainsFunc(s.Username, isControl) && !strings.Contains(s.Username, ":"),
			location+".username", "expected a user name without colon")
	}
	faults.Check((s.Challenge == "meta") == (s.ChallengeToken != ""), location+".challenge_token", "expected a token with the challenge meta, and none without")
	faults.Check((s.Challenge == "field") == (s.ChallengeField != ""), location+".challenge_field", "expected a name with the challenge field, and none without")
}

// checkFields adds a fault for each field that the type does not have.
func (s Settings) checkFields(faults *errs.Faults) {
	for _, field := range []struct {
		name  string
		isSet bool
	}{
		{"tolerance_seconds", s.Tolerance != nil},
		{"header", s.Header != ""},
		{"prefix", s.Prefix != ""},
		{"algorithm", s.Algorithm != ""},
		{"encoding", s.Encoding != ""},
		{"signed", s.Signed != ""},
		{"timestamp_header", s.TimestampHeader != ""},
		{"username", s.Username != ""},
	} {
		faults.Check(!field.isSet || slices.Contains(fields[s.Type], field.name), location+"."+field.name,
			"the type %s has no such setting", s.Type)
	}
	faults.Check(s.Tolerance == nil || s.Type != HMAC || s.TimestampHeader != "", location+".tolerance_seconds", "expected timestamp_header with it")
	faults.Check(s.Tolerance == nil || *s.Tolerance >= 1 && *s.Tolerance <= 86400, location+".tolerance_seconds", "expected 1 to 86400")
}

func (s Settings) checkSecrets(faults *errs.Faults) {
	faults.Check(len(s.Secrets) == 1 || len(s.Secrets) == 2, location+".secrets", "expected one or two secrets")
	for i, secret := range s.Secrets {
		at := fmt.Sprintf("%s.secrets[%d]", location, i)
		faults.Check(secret != "" && len(secret) <= maxSecret && !strings.ContainsFunc(secret, isControl), at,
			"expected 1 to %d characters without control characters", maxSecret)
		if s.Type == Standard && secret != Mask {
			_, err := standardKey(secret)
			faults.Check(err == nil, at, "expected whsec_ and the base64 of 24 to 64 bytes")
		}
	}
}

func (s Settings) checkSigned(faults *errs.Faults) {
	parts, err := parseSigned(s.Signed)
	if err != nil {
		faults.Add(location+".signed", "%v", err)
		return
	}
	has := func(kind partKind) bool {
		return slices.ContainsFunc(parts, func(p part) bool { return p.kind == kind })
	}
	faults.Check(has(partBody), location+".signed", "expected {body} in it: otherwise the signature does not protect the body")
	faults.Check(has(partTimestamp) == (s.TimestampHeader != ""), location+".timestamp_header",
		"expected a name if signed contains {timestamp}, and none otherwise")
	faults.Check(s.TimestampHeader == "" || isToken(s.TimestampHeader), location+".timestamp_header", "expected the name of a header")
}

// standardKey decodes a secret of Standard Webhooks.
func standardKey(secret string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimPrefix(secret, "v1,"), "whsec_"))
	if err != nil || len(key) < 24 || len(key) > 64 {
		return nil, fmt.Errorf("verify: malformed secret")
	}
	return key, nil
}

// IsHidden reports whether a header with this lower-case name carries a credential, which viewers do not
// see.
func IsHidden(name string) bool {
	switch name {
	case "authorization", "cookie", "proxy-authorization":
		return true
	}
	for _, suffix := range []string{"-key", "-token", "-secret", "-signature"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// isToken reports whether a text can be a header's name (RFC 9110, section 5.6.2).
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		isLetterOrDigit := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		return !isLetterOrDigit && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }
